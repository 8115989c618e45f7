#!/usr/bin/env python3
"""Adds to a benchmark's JSON what it was measured on, and puts it among the snapshots.

The snapshot's folder is named by the GPU, its file by the benchmark: nvidia-h200/decode_gpt2.json.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUERY = ["name", "driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.limit"]


def query_gpu():
    """One GPU's properties by nvidia-smi's names."""
    try:
        out = subprocess.run(
            ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader"],
            capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"snapshot.py: nvidia-smi: {error}; name the GPU with --gpu")
    return dict(zip(QUERY, (value.strip() for value in out.splitlines()[0].split(","))))


def commit():
    """RALLY_COMMIT, for a copy of the tree without its history, or what git says."""
    if "RALLY_COMMIT" in os.environ:
        return os.environ["RALLY_COMMIT"]
    described = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True, text=True, check=False)
    return described.stdout.strip() or "unknown"


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=pathlib.Path, nargs="+", help="JSON files of benchmarks")
    parser.add_argument("--command", default="", help="the command that makes the figures")
    parser.add_argument("--gpu", default="", help="name of the GPU; default: ask nvidia-smi")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests" / "bench" / "snapshots",
                        help="folder of the snapshots (default %(default)s)")
    return parser.parse_args()


def main():
    options = arguments()
    machine = {"name": options.gpu} if options.gpu else query_gpu()
    folder = options.out / re.sub(r"[^a-z0-9]+", "-", machine["name"].lower()).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    for path in options.figures:
        try:
            figures = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            sys.exit(f"snapshot.py: {path}: {error}")
        figures["machine"] = machine
        figures["commit"] = commit()
        figures["date"] = datetime.date.today().isoformat()
        figures["command"] = options.command
        target = folder / path.name
        target.write_text(json.dumps(figures, indent=1) + "\n")
        print(target)


if __name__ == "__main__":
    main()
