#!/usr/bin/env python3
"""The rungs that lead from a plain decoder to the ping-pong loop, each on this engine.

Every rung keeps what the one before it brought and changes one thing; the last ones are
alternatives to the ping-pong loop. Figures are those of decode_bench: stamps that the device takes.
A rung that this build or this device cannot run is reported with its error and the rest goes on.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

UNCAPTURED_SYNC = ["--loop", "sync", "--graphs", "off"]
STATIC = ["--kv-block-tokens", "0"]
# (name, flags of decode_bench, what it is)
RUNGS = [
    ("no KV cache", ["--kv-cache", "off", *UNCAPTURED_SYNC],
     "every step computes the whole prefix"),
    ("growing KV cache", ["--kv-pool", "realloc", *UNCAPTURED_SYNC],
     "the pool grows by copying"),
    ("expandable segments", ["--kv-pool", "mapped", *UNCAPTURED_SYNC],
     "the pool grows in place"),
    ("static cache", [*STATIC, *UNCAPTURED_SYNC], "one block a sequence, there from the start"),
    ("captured step, stop check by synchronising", [*STATIC, "--loop", "sync"],
     "a graph a step; the host waits for each"),
    ("ping-pong", [*STATIC, "--loop", "pingpong"],
     "step i+1 is launched before step i is seen"),
    ("paged KV", ["--loop", "pingpong"], "blocks of 16 tokens; the default"),
    ("paged KV, synchronous", ["--loop", "sync"], "what ping-pong saves at the default"),
    ("paged KV, copy streams", ["--loop", "copy-stream"],
     "one stream of steps, the copies beside it"),
    ("paged KV, step not captured", ["--loop", "pingpong", "--graphs", "off"],
     "what the graph saves at the default"),
]
SHORT_STEPS = 32  # of the rung whose steps grow with the prefix


def run_rung(options, flags):
    """decode_bench's JSON, or a string that says why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "rung.json"
        steps = min(options.steps, SHORT_STEPS) if "--kv-cache" in flags else options.steps
        command = [
            str(options.bench), "--device", options.device, "--batch", options.batch, "--context",
            options.context, "--steps", str(steps), "--repeats", str(options.repeats), "--dtype",
            options.dtype, "--json", str(out), *flags]
        command += ["--model", options.model] if options.model else ["--config", options.config]
        if options.threads:
            command += ["--threads", str(options.threads)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=options.timeout, check=False)
        except subprocess.TimeoutExpired:
            return f"took more than {options.timeout} s"
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines()
            return lines[-1] if lines else f"exit status {done.returncode}"
        return json.loads(out.read_text())


def print_case(name, case):
    print(f"{name:<44} {case['batch']:>5} {case['context_mean']:>7.0f} "
          f"{case['step_us']['median'] / 1e3:>10.4f} {case['tokens_per_s']:>10.0f} "
          f"{case['idle_us']['median']:>9.2f} {case['idle_us']['p99']:>9.2f} "
          f"{case['share_of_limit'] * 100:>6.1f}%", flush=True)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=pathlib.Path, required=True,
                        help="the decode_bench program")
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--config", help="directory with config.json; random weights")
    model.add_argument("--model", help="model directory or GGUF file")
    parser.add_argument("--device", default="cuda:0", help="host or cuda:N (default %(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="of the host device; 0: all cores")
    parser.add_argument("--dtype", default="auto", help="bf16, fp16, fp32 or auto")
    parser.add_argument("--batch", default="1", help="comma-separated (default %(default)s)")
    parser.add_argument("--context", default="512", help="comma-separated (default %(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="measured steps of a run")
    parser.add_argument("--repeats", type=int, default=5, help="runs of which the medians count")
    parser.add_argument("--timeout", type=int, default=300, help="seconds that one rung may take")
    parser.add_argument("--only", default="", help="rungs whose name contains one of these, a,b")
    parser.add_argument("--json", type=pathlib.Path, help="also write the figures to this file")
    options = parser.parse_args()
    if not options.bench.is_file():
        parser.error(f"--bench: {options.bench} is no file; build the target decode_bench")
    return options


def main():
    options = arguments()
    wanted = [word for word in options.only.split(",") if word]
    rungs = [r for r in RUNGS if not wanted or any(word in r[0] for word in wanted)]
    if not rungs:
        sys.exit(f"ladder.py: --only: no rung has {options.only} in its name")
    result = {"benchmark": "ladder", "rungs": []}
    print(f"{'rung':<44} {'batch':>5} {'context':>7} {'ms a step':>10} {'tokens/s':>10} "
          f"{'idle us':>9} {'p99':>9} {'share':>7}")
    for name, flags, what in rungs:
        ran = run_rung(options, flags)
        rung = {"rung": name, "what": what, "flags": " ".join(flags)}
        if isinstance(ran, str):
            rung["error"] = ran
            print(f"{name:<44} did not run: {ran}", flush=True)
        else:
            # Each rung's limit is of the bandwidth that its own process measured.
            rung["cases"] = ran["decode"]
            rung["read_gb_per_s"] = ran["read_gb_per_s"]
            for key in ("model", "dtype", "device", "weight_bytes"):
                result[key] = ran[key]
            for case in ran["decode"]:
                print_case(name, case)
        result["rungs"].append(rung)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if any("cases" in rung for rung in result["rungs"]) else 1


if __name__ == "__main__":
    sys.exit(main())
