#!/usr/bin/env python3
"""The programs as their users run them: rally-server and rally over loopback, with real models.

Usage: server_test.py BIN_DIR SOURCE_DIR
The tiny checkpoints' tokens are those of transformers (fixtures/make_checkpoints.py). With
RALLY_SMOLLM2_GGUF the real model is served too.
"""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

BIN, SOURCE = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
del sys.argv[1:3]
CHECKPOINTS = SOURCE / "tests" / "fixtures" / "checkpoints"
START_SECONDS = 120


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A rally-server on ports of its own, healthy when the block is entered."""

    def __init__(self, model, *flags):
        self.address = f"127.0.0.1:{free_port()}"
        self.metrics_address = f"127.0.0.1:{free_port()}"
        self.command = [
            str(BIN / "rally-server"), "--model", str(model), "--listen", self.address,
            "--metrics-listen", self.metrics_address, *flags]

    def __enter__(self):
        self.log_file = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.DEVNULL, stderr=self.log_file)
        deadline = time.monotonic() + START_SECONDS
        while rally(self, "health").returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                log = self.log
                self.__exit__()
                raise AssertionError(f"the server did not start:\n{log}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log_file.close()

    @property
    def log(self):
        self.log_file.seek(0)
        return self.log_file.read()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.metrics_address}/metrics") as reply:
            return reply.read().decode()

    def metric(self, name, **labels):
        """Sum over the series of `name` that have these labels."""
        total = 0.0
        for line in self.metrics().splitlines():
            found = re.match(rf"{name}(?:\{{(.*)\}})? (\S+)$", line)
            if found and all(f'{k}="{v}"' in (found.group(1) or "") for k, v in labels.items()):
                total += float(found.group(2))
        return total

    def peak_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024


def rally(server, *arguments, **options):
    return subprocess.run(
        [str(BIN / "rally"), "--addr", server.address, *arguments],
        capture_output=True, text=True, timeout=120, check=False, **options)


def generate_ids(server, ids, *flags):
    """(token ids, the final message) of one greedy call."""
    call = rally(server, "generate", "--json", "--temperature", "0", "--token-ids",
                 ",".join(map(str, ids)), *flags)
    assert call.returncode == 0, call.stderr + call.stdout
    messages = [json.loads(line) for line in call.stdout.splitlines()]
    out = [i for m in messages for i in m.get("delta", {}).get("token_ids", [])]
    return out, messages[-1]["finished"]


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class TinyModels(unittest.TestCase):
    def test_no_planted_fault_is_shipped(self):
        self.assertNotIn(b"RALLY_PLANT", (BIN / "rally-server").read_bytes())

    def test_every_family_gives_the_tokens_of_transformers(self):
        for name in ("gpt2_tiny", "llama_tiny", "qwen2_tiny", "qwen3_tiny"):
            expected = json.loads((CHECKPOINTS / name / "expected.json").read_text())
            with self.subTest(name), Server(CHECKPOINTS / name, "--dtype", "fp32") as server:
                for prompt in expected["prompts"]:
                    ids, finished = generate_ids(
                        server, prompt["ids"], "--max-tokens", "64", "--ignore-eos")
                    self.assertEqual(ids, prompt["greedy"])
                    self.assertEqual(finished["reason"], "FINISH_REASON_LENGTH")
                    self.assertEqual(finished["usage"]["completion_tokens"], 64)
                self.assertEqual(server.stop(), 0)

    def test_two_ranks_share_the_requests(self):
        expected = json.loads((CHECKPOINTS / "llama_tiny" / "expected.json").read_text())
        prompt = expected["prompts"][-1]
        with Server(CHECKPOINTS / "llama_tiny", "--dtype", "fp32", "--devices",
                    "host:2") as server:
            command = [str(BIN / "rally"), "--addr", server.address, "generate", "--json",
                       "--temperature", "0", "--ignore-eos", "--max-tokens", "64", "--token-ids",
                       ",".join(map(str, prompt["ids"]))]
            calls = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                     for _ in range(8)]
            for call in calls:
                lines = call.communicate(timeout=60)[0].splitlines()
                ids = [i for line in lines
                       for i in json.loads(line).get("delta", {}).get("token_ids", [])]
                self.assertEqual(ids, prompt["greedy"])
            for rank in ("host:0", "host:1"):
                self.assertEqual(server.metric("rally_rank_up", rank=rank), 1)
            self.assertEqual(server.metric("rally_tokens_total", kind="generated"), 8 * 64)

    def test_a_client_that_is_killed_frees_its_row(self):
        with Server(CHECKPOINTS / "llama_tiny", "--max-rows", "1") as server:
            command = [str(BIN / "rally"), "--addr", server.address, "generate", "--ignore-eos",
                       "--max-tokens", "100000", "--token-ids", "1,2,3"]
            client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            client.stdout.read(1)
            client.kill()
            client.wait()
            client.stdout.close()
            self.assertTrue(wait_until(lambda: server.metric("rally_running_requests") == 0))
            total = server.metric("rally_kv_blocks")
            self.assertEqual(server.metric("rally_kv_blocks", state="free"), total)
            generate_ids(server, [1, 2, 3], "--max-tokens", "3")

    def test_sigterm_lets_running_streams_end(self):
        with Server(CHECKPOINTS / "llama_tiny") as server:
            command = [str(BIN / "rally"), "--addr", server.address, "generate", "--json",
                       "--ignore-eos", "--max-tokens", "200", "--token-ids", "1,2,3"]
            calls = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                     for _ in range(6)]
            for call in calls:
                call.first = call.stdout.readline()
            self.assertEqual(server.stop(), 0)
            for call in calls:
                # Not communicate(): it would lose what readline() has read ahead.
                lines = [call.first] + call.stdout.readlines()
                call.stdout.close()
                self.assertIn("finished", json.loads(lines[-1]))
                self.assertEqual(call.wait(timeout=60), 0)

    def test_bad_requests_name_their_field(self):
        with Server(CHECKPOINTS / "llama_tiny") as server:
            for flags, word in (
                    (["--temperature", "nan", "--token-ids", "1"], "temperature"),
                    (["--top-p", "0", "--token-ids", "1"], "top_p"),
                    (["--max-tokens", "0", "--token-ids", "1"], "max_tokens"),
                    (["--token-ids", "999999"], "token_ids"),
                    (["--token-ids", ",".join(["1"] * 3000)], "context")):
                call = rally(server, "generate", *flags)
                self.assertEqual(call.returncode, 3, call.stderr)
                self.assertIn(word, call.stderr)
            empty = rally(server, "generate", input="")
            self.assertEqual(empty.returncode, 3, empty.stderr)
            received = server.metric("rally_requests_received_total")
            self.assertEqual(server.metric("rally_requests_total"), received)

    def test_bad_models_and_flags_are_refused_by_name(self):
        cases = (
            (["--model", "/nonexistent/model.gguf"], 3, "/nonexistent/model.gguf"),
            (["--model", str(SOURCE / "tests")], 3, "config.json"),
            (["--model", str(CHECKPOINTS / "llama_tiny"), "--max-rows", "0"], 2, "max-rows"),
            (["--model", str(CHECKPOINTS / "llama_tiny"), "--kv-pool-bytes", "1"], 3,
             "--kv-pool-bytes"),
            (["--model", str(CHECKPOINTS / "llama_tiny"), "--devices", "tpu"], None, "tpu"),
        )
        for arguments, code, word in cases:
            with self.subTest(arguments):
                run = subprocess.run(
                    [str(BIN / "rally-server"), "--listen", "127.0.0.1:0", "--metrics-listen",
                     "off", *arguments], capture_output=True, text=True, timeout=60, check=False)
                self.assertIn(word, run.stderr)
                if code is not None:
                    self.assertEqual(run.returncode, code, run.stderr)
                self.assertNotEqual(run.returncode, 0)


@unittest.skipUnless("RALLY_SMOLLM2_GGUF" in os.environ, "RALLY_SMOLLM2_GGUF is not set")
class SmolLm2(unittest.TestCase):
    def test_text_streams_and_memory_stays_small(self):
        expected = json.loads(
            (SOURCE / "tests" / "fixtures" / "smollm2_expected.json").read_text())
        with Server(os.environ["RALLY_SMOLLM2_GGUF"]) as server:
            call = rally(server, "generate", "--temperature", "0", "--max-tokens", "24",
                         expected["generations"][0]["prompt"])
            self.assertEqual(call.returncode, 0, call.stderr)
            self.assertTrue(expected["generations"][0]["text"].startswith(call.stdout.rstrip()))
            self.assertIn("24 tokens", call.stderr)
            self.assertLess(server.peak_bytes(), 900e6)
            self.assertEqual(server.stop(), 0)
            self.assertIn("KV pool", server.log)


if __name__ == "__main__":
    unittest.main(verbosity=2)
