#!/usr/bin/env python3
"""The bundle runs from wherever it is put, with nothing of this machine but glibc.

Usage: bundle_test.py SOURCE_DIR COMMAND...
COMMAND collects the bundle into the folder that -DDESTINATION= names (cmake/RallyBundle.cmake).
"""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE, COMMAND = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
del sys.argv[1:]
MODEL = SOURCE / "tests" / "fixtures" / "checkpoints" / "llama_tiny"
OF_THE_MACHINE = re.compile(
    r"(ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|resolv|util|anl|nsl|mvec)\.so)")
ENVIRONMENT = {**os.environ, "LD_LIBRARY_PATH": ""}
START_SECONDS = 60


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=60,
                          check=False, env=ENVIRONMENT)


class BundleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        made, cls.bundle = (pathlib.Path(cls.folder.name) / name for name in ("made", "moved"))
        done = run(COMMAND[0], f"-DDESTINATION={made}", *COMMAND[1:])
        assert done.returncode == 0, done.stderr
        shutil.move(made, cls.bundle)
        cls.programs = sorted((cls.bundle / "bin").iterdir())

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_library_is_the_bundles_or_glibcs(self):
        self.assertGreaterEqual({p.name for p in self.programs}, {"rally", "rally-server"})
        outside = []
        for program in self.programs:
            for line in run("ldd", program).stdout.splitlines():
                name = line.split()[0].rsplit("/", 1)[-1]
                if f"{self.bundle}/" not in line and not OF_THE_MACHINE.match(name):
                    outside.append(f"{program.name}: {line.strip()}")
        self.assertEqual(outside, [])

    def test_every_program_starts(self):
        for program in self.programs:
            done = run(program, "--help")
            self.assertEqual(done.returncode, 0, f"{program.name}: {done.stderr}")

    def test_a_server_becomes_healthy(self):
        address = f"127.0.0.1:{free_port()}"
        server = subprocess.Popen(
            [str(self.bundle / "bin" / "rally-server"), "--model", str(MODEL), "--devices", "host",
             "--listen", address, "--metrics-listen", "off"],
            env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + START_SECONDS
            while (health := run(self.bundle / "bin" / "rally", "--addr", address, "health")
                   ).returncode != 0:
                self.assertIsNone(server.poll(), "the server ended")
                self.assertLess(time.monotonic(), deadline, health.stderr)
                time.sleep(0.05)
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    unittest.main()
