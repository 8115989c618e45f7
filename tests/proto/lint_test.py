#!/usr/bin/env python3
"""buf's STANDARD rules over the public protos: lint_test.py PROTO_DIR. Exit code 77 without buf."""
import pathlib
import shutil
import subprocess
import sys

buf = shutil.which("buf", path=str(pathlib.Path(sys.executable).parent)) or shutil.which("buf")
if buf is None:
    print("skipped: buf (PyPI: buf-bin) is not installed")
    sys.exit(77)
sys.exit(subprocess.run([buf, "lint", sys.argv[1]], check=False).returncode)
