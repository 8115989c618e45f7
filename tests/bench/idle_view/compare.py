#!/usr/bin/env python3
"""Do the idle times that the engine stamps agree with CUPTI's records of the same run?

Each pair is a run of decode_bench: its --trace file and the file that cupti_trace wrote beside it.
With both loops given, the difference between them is compared too. The clocks differ, so the two
lists are matched from their ends: the last graph launches are the last decode steps. A wrong match
shows as clock offsets that jump about, and is refused.

Exit status: 0 where the views agree, 1 where they do not, 2 where they cannot be compared.
"""
import argparse
import csv
import json
import pathlib
import statistics
import sys

MAX_OFFSET_SPREAD_US = 50
NS = 1e-3  # microseconds


class Mismatch(Exception):
    pass


def read_steps(path):
    """(start, end, measured) of each decode step; those are the captured ones."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    return [(int(r["start_ns"]), int(r["end_ns"]), r["measured"] == "1")
            for r in rows if r["decode"] == "1"]


def read_graphs(path):
    with open(path, newline="") as file:
        return sorted((int(r["start_ns"]), int(r["end_ns"])) for r in csv.DictReader(file))


def offset_spread_us(steps, graphs):
    """How far the offset of the two clocks strays from a steady drift: little, where step and graph
    belong together, and by a prefill's time around each prefill, where they do not."""
    offsets = [(s[0], g[0] - s[0]) for s, g in zip(steps, graphs)]
    (t0, o0), (t1, o1) = offsets[0], offsets[-1]
    drift = (o1 - o0) / max(1, t1 - t0)
    residuals = [o - o0 - drift * (t - t0) for t, o in offsets]
    return (max(residuals) - min(residuals)) * NS


def compare(trace, cupti):
    """Median gaps of both views in microseconds, over the measured steps."""
    steps, graphs = read_steps(trace), read_graphs(cupti)
    if not any(measured for _, _, measured in steps):
        raise Mismatch(f"{trace} has no measured decode step")
    if len(graphs) < len(steps):
        raise Mismatch(f"{cupti} has {len(graphs)} graph launches for {len(steps)} decode steps")
    graphs = graphs[len(graphs) - len(steps):]
    spread = offset_spread_us(steps, graphs)
    if spread > MAX_OFFSET_SPREAD_US:
        raise Mismatch(f"{trace} and {cupti} do not match: the clocks' offset spreads over "
                       f"{spread:.0f} us")
    stamped, traced = [], []
    for i in range(len(steps) - 1):
        if steps[i][2] and steps[i + 1][2]:
            stamped.append((steps[i + 1][0] - steps[i][1]) * NS)
            traced.append((graphs[i + 1][0] - graphs[i][1]) * NS)
    return {"steps": len(stamped), "stamps_us": statistics.median(stamped),
            "cupti_us": statistics.median(traced), "offset_spread_us": spread}


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for loop in ("pingpong", "sync"):
        parser.add_argument(f"--{loop}", nargs=2, metavar=("TRACE", "CUPTI"), required=True,
                            help=f"the two files of a run with --loop {loop}")
    parser.add_argument("--max-median-us", type=float, default=1.0,
                        help="how far the medians may differ (default %(default)s)")
    parser.add_argument("--max-difference-us", type=float, default=0.5,
                        help="how far sync - pingpong may differ (default %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, help="also write the figures to this file")
    return parser.parse_args()


def main():
    options = arguments()
    try:
        views = {loop: compare(*getattr(options, loop)) for loop in ("sync", "pingpong")}
    except (Mismatch, OSError, KeyError, ValueError) as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 2
    agree = True
    for loop, view in views.items():
        off = abs(view["stamps_us"] - view["cupti_us"])
        agree = agree and off <= options.max_median_us
        print(f"{loop:<9} idle a step, median of {view['steps']}: stamps {view['stamps_us']:.2f} "
              f"us, CUPTI {view['cupti_us']:.2f} us, apart {off:.2f} us")
    saved = {key: views["sync"][key] - views["pingpong"][key] for key in ("stamps_us", "cupti_us")}
    off = abs(saved["stamps_us"] - saved["cupti_us"])
    agree = agree and off <= options.max_difference_us
    print(f"sync - pingpong: stamps {saved['stamps_us']:.2f} us, CUPTI {saved['cupti_us']:.2f} us, "
          f"apart {off:.2f} us: {'the views agree' if agree else 'THE VIEWS DISAGREE'}")
    if options.json:
        options.json.write_text(json.dumps(
            {"benchmark": "idle_view", **views, "difference": saved, "agree": agree}, indent=2)
            + "\n")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
