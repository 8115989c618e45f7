#!/usr/bin/env python3
"""The benchmark programs run and their figures hang together; no figure itself is checked.

Usage: bench_smoke_test.py DECODE_BENCH SOURCE_DIR
"""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH, SOURCE = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
del sys.argv[1:3]
TOOLS = SOURCE / "tests" / "bench"
MODEL = SOURCE / "tests" / "fixtures" / "checkpoints" / "gpt2_tiny"
TINY = ["--threads", "1", "--dtype", "fp32", "--context", "48", "--steps", "16", "--repeats", "2"]


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=100,
                          check=False)


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def path(self, name, text=None):
        if text is not None:
            (self.folder / name).write_text(text)
        return self.folder / name


class DecodeBench(InFolder):
    def test_figures_and_trace_agree(self):
        done = run(BENCH, "--device", "host", "--config", MODEL, *TINY, "--batch", "1,3", "--loop",
                   "sync,pingpong", "--prefill", "32", "--json", self.path("out.json"), "--trace",
                   self.path("trace.csv"))
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = json.loads(self.path("out.json").read_text())
        cases = [(c["loop"], c["batch"]) for c in figures["decode"]]
        self.assertEqual(cases, [("sync", 1), ("sync", 3), ("pingpong", 1), ("pingpong", 3)])
        self.assertEqual([p["tokens"] for p in figures["prefill"]], [32])
        with open(self.path("trace.csv"), newline="") as file:
            rows = [r for r in csv.DictReader(file) if r["measured"] == "1"]
        for case in figures["decode"]:
            name = f"{case['loop']}/{case['batch']}/48"
            runs = [[r for r in rows if r["case"] == name and r["repeat"] == repeat]
                    for repeat in ("1", "2")]
            for steps in runs:
                self.assertEqual(len(steps), case["steps"] + 1)
                self.assertEqual({int(r["rows"]) for r in steps}, {case["batch"]})
                numbers = [int(r["step"]) for r in steps]
                self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(steps))))
            self.assertAlmostEqual(case["context_mean"], 48, delta=4)
            # Of two runs, the median is the larger of their medians.
            medians = []
            for steps in runs:
                gaps = sorted(int(b["start_ns"]) - int(a["end_ns"])
                              for a, b in zip(steps, steps[1:]))
                medians.append(gaps[len(gaps) // 2] / 1e3)
            self.assertAlmostEqual(case["idle_us"]["median"], max(medians), places=6)

    def test_wrong_flags_are_named(self):
        for flags, word in ((["--loop", "x"], "--loop"), (["--batch", "0"], "--batch"),
                            (["--device", "tpu"], "--device")):
            done = run(BENCH, "--config", MODEL, *TINY, *flags)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(word, done.stderr)

    def test_ladder_runs_its_rungs(self):
        done = run(sys.executable, TOOLS / "ladder" / "ladder.py", "--bench", BENCH, "--device",
                   "host", "--config", MODEL, *TINY, "--batch", "2", "--only",
                   "no KV,static cache", "--json", self.path("ladder.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        rungs = json.loads(self.path("ladder.json").read_text())["rungs"]
        self.assertEqual([r.get("error") for r in rungs], [None] * 2, done.stdout)


class Report(InFolder):
    DECODE = {
        "benchmark": "decode", "model": "gpt2", "dtype": "bf16", "read_gb_per_s": 4600.0,
        "decode": [{"loop": "pingpong", "batch": 1, "context_mean": 128.0, "tokens_per_s": 5000.0,
                    "step_us": {"median": 200.0, "p99": 201.0}, "limit_us": 60.0,
                    "idle_us": {"median": 2.5, "p99": 3.5}, "share_of_limit": 0.3}]}
    MARKED = ("before\n<!-- snapshots: begin (tests/bench/report.py) -->\nold\n"
              "<!-- snapshots: end -->\nafter\n")

    def report(self, *flags):
        return run(sys.executable, TOOLS / "report.py", "--snapshots", self.folder / "snapshots",
                   "--page", self.path("page.md"), *flags)

    def test_a_snapshot_becomes_a_table(self):
        self.path("page.md", self.MARKED)
        figures = self.path("decode_gpt2.json", json.dumps(self.DECODE))
        made = run(sys.executable, TOOLS / "snapshot.py", figures, "--gpu", "NVIDIA H200", "--out",
                   self.folder / "snapshots", "--command", "run it")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertTrue((self.folder / "snapshots/nvidia-h200/decode_gpt2.json").exists())
        self.assertEqual(self.report("--check").returncode, 1)
        self.assertEqual(self.report().returncode, 0)
        self.assertEqual(self.report("--check").returncode, 0)
        page = self.path("page.md").read_text()
        self.assertTrue(page.startswith("before\n") and page.endswith("\nafter\n"))
        self.assertNotIn("old", page)
        self.assertIn("| pingpong | 1 | 128 | 200.0 | 201.0 | 2.5 | 3.5 | 5,000 | 60.0 | 30 % |",
                      page)
        self.assertIn("`run it`", page)

    def test_a_page_without_markers_is_refused(self):
        self.path("page.md", "nothing\n")
        (self.folder / "snapshots").mkdir()
        self.assertIn("report.py: the page wants", self.report().stderr)
        self.assertEqual(self.path("page.md").read_text(), "nothing\n")

    def test_the_committed_page_shows_the_committed_snapshots(self):
        done = run(sys.executable, TOOLS / "report.py", "--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class IdleView(InFolder):
    def views(self, name, gap_ns, cupti_gap_ns, shift=0):
        """Files of three runs of 20 steps of 100 us, each after a prefill of 1 ms."""
        steps = ["case,repeat,step,start_ns,end_ns,rows,tokens,decode,measured"]
        graphs = ["start_ns,end_ns,stream", "5,6,7"]  # the engine's own first launch
        now, step = 1_000_000, 0
        for repeat in range(3):
            steps.append(f"c,{repeat},{step},{now},{now + 1_000_000},1,64,0,0")
            now, step = now + 1_010_000, step + 1
            for i in range(20):
                measured = int(repeat > 0 and i > 0)
                steps.append(f"c,{repeat},{step},{now},{now + 100_000},1,1,1,{measured}")
                late = gap_ns - cupti_gap_ns  # CUPTI sees the graph begin and end so much outside
                graphs.append(f"{now + 777 - late // 2},{now + 100_777 + late - late // 2},7")
                now, step = now + 100_000 + gap_ns, step + 1
        if shift:
            graphs = graphs[:1] + graphs[1:-shift]
        return [self.path(f"{name}.csv", "\n".join(steps) + "\n"),
                self.path(f"{name}.cupti.csv", "\n".join(graphs) + "\n")]

    def compare(self, sync, pingpong):
        return run(sys.executable, TOOLS / "idle_view" / "compare.py", "--sync", *sync,
                   "--pingpong", *pingpong, "--json", self.path("out.json"))

    def test_views_that_agree(self):
        done = self.compare(self.views("s", 13_000, 12_200), self.views("p", 2_400, 1_800))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        figures = json.loads(self.path("out.json").read_text())
        self.assertAlmostEqual(figures["sync"]["stamps_us"], 13.0)
        self.assertAlmostEqual(figures["sync"]["cupti_us"], 12.2)
        self.assertAlmostEqual(figures["difference"]["cupti_us"], 10.4)
        self.assertEqual(figures["pingpong"]["steps"], 36)

    def test_views_that_do_not(self):
        done = self.compare(self.views("s", 13_000, 11_000), self.views("p", 2_400, 2_400))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)

    def test_lists_that_do_not_match_are_refused(self):
        done = self.compare(self.views("s", 13_000, 13_000, shift=1), self.views("p", 2_400, 2_400))
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("do not match", done.stderr)


if __name__ == "__main__":
    unittest.main()
