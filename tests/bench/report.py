#!/usr/bin/env python3
"""Writes the tables of the GPU snapshots into BENCHMARKS.md, between its two markers.

Every figure in those tables stands in a snapshot with the driver, the commit and the command that
made it. With --check nothing is written; the exit status says whether the page is up to date.
"""
import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN = "<!-- snapshots: begin (tests/bench/report.py) -->"
END = "<!-- snapshots: end -->"
ORDER = ["decode", "ladder", "peers", "idle_view"]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def decode_row(name, case):
    step, idle = case["step_us"], case["idle_us"]
    return [name, str(case["batch"]), f"{case['context_mean']:.0f}", f"{step['median']:,.1f}",
            f"{step['p99']:,.1f}", f"{idle['median']:.1f}", f"{idle['p99']:.1f}",
            f"{case['tokens_per_s']:,.0f}", f"{case['limit_us']:,.1f}",
            f"{case['share_of_limit'] * 100:.0f} %"]


DECODE_HEAD = ["batch", "context", "step us", "p99", "idle us", "p99", "tokens/s", "limit us",
               "share of the limit"]


def decode(figures):
    parts = [f"Decode, {figures['model']}, {figures['dtype']}; the memory was read at "
             f"{figures['read_gb_per_s']:,.0f} GB/s in the same run.",
             table(["loop", *DECODE_HEAD], [decode_row(c["loop"], c) for c in figures["decode"]])]
    if figures.get("prefill"):
        parts.append(table(
            ["prefill, tokens", "us", "tokens/s", "TFLOP/s of matrix products"],
            [[str(p["tokens"]), f"{p['us']:,.0f}", f"{p['tokens_per_s']:,.0f}",
              f"{p['tflop_per_s']:.0f}"] for p in figures["prefill"]]))
    return parts


def ladder(figures):
    rows = []
    for rung in figures["rungs"]:
        if "error" in rung:
            rows.append([rung["rung"], *[""] * (len(DECODE_HEAD) - 1), f"did not run: "
                         f"{rung['error']}"])
        rows += [decode_row(rung["rung"], case) for case in rung.get("cases", [])]
    flags = ", ".join(f"{rung['rung']}: `{rung['flags']}`" for rung in figures["rungs"])
    return [f"The ladder, {figures.get('model', '')}, {figures.get('dtype', '')}. Flags: {flags}.",
            table(["rung", *DECODE_HEAD], rows)]


def peers(figures):
    rows = []
    for case in figures["cases"]:
        if "error" in case:
            rows.append([case["rung"], str(case["batch"]), "did not run", case["error"]])
        else:
            rows.append([case["rung"], str(case["batch"]), f"{case['step_us']['median']:,.1f}",
                         f"{case['tokens_per_s']:,.0f}"])
    return [f"Hugging Face transformers {figures['transformers']} with torch {figures['torch']}, "
            f"{figures['model']}, {figures['dtype']}, context {figures['context']}.",
            table(["rung", "batch", "step us", "tokens/s"], rows)]


def idle_view(figures):
    rows = [[name, f"{view['stamps_us']:.2f}", f"{view['cupti_us']:.2f}"]
            for name, view in (("sync", figures["sync"]), ("pingpong", figures["pingpong"]),
                               ("difference", figures["difference"]))]
    return ["Idle a step, median us, by the step's own stamps and by CUPTI in the same run"
            f" ({'they agree' if figures['agree'] else 'they DISAGREE'}).",
            table(["loop", "stamps", "CUPTI"], rows)]


RENDER = {"decode": decode, "ladder": ladder, "peers": peers, "idle_view": idle_view}


def machine_text(machine, figures):
    clocks = f", SM clock up to {machine['clocks.max.sm']}" if "clocks.max.sm" in machine else ""
    driver = f"driver {machine['driver_version']}" if "driver_version" in machine else "no driver"
    return f"{driver}{clocks}, commit {figures['commit']}, {figures['date']}"


def render(snapshots):
    """Markdown of all snapshots that snapshot.py made."""
    parts = []
    for folder in sorted(p for p in snapshots.iterdir() if p.is_dir()):
        found = [json.loads(p.read_text()) | {"file": p.name} for p in folder.glob("*.json")]
        found = [f for f in found if f.get("benchmark") in RENDER and "machine" in f]
        found.sort(key=lambda f: (ORDER.index(f["benchmark"]), f["file"]))
        if found:
            parts.append(f"## {found[0]['machine']['name']}")
        for figures in found:
            parts += RENDER[figures["benchmark"]](figures)
            origin = f"`tests/bench/snapshots/{folder.name}/{figures['file']}`: " + machine_text(
                figures["machine"], figures)
            parts.append(origin + (f"; `{figures['command']}`" if figures["command"] else ""))
    return "\n\n".join(parts)


def replace(page, text):
    begin, end = page.find(BEGIN), page.find(END)
    if begin < 0 or end < begin:
        sys.exit(f"report.py: the page wants a line \"{BEGIN}\" and after it \"{END}\"")
    return page[:begin + len(BEGIN)] + "\n\n" + (text + "\n\n" if text else "") + page[end:]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snapshots", type=pathlib.Path,
                        default=ROOT / "tests" / "bench" / "snapshots")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "BENCHMARKS.md")
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    options = parser.parse_args()
    page = options.page.read_text()
    wanted = replace(page, render(options.snapshots))
    if options.check:
        if page != wanted:
            print(f"{options.page} is not what tests/bench/report.py makes of the snapshots")
        return int(page != wanted)
    options.page.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
