#!/usr/bin/env python3
"""The house rules that a machine can check: layers, build lists, line and function lengths.

Usage: tidy_test.py SOURCE_DIR
"""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()
LAYERS = ("kernels", "engine", "server", "client")
MAX_COLUMNS = 100
MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 400

# What each layer may include of the project, and which outside headers belong to one place only.
MAY_INCLUDE = {
    "kernels": {"kernels"},
    "engine": {"engine", "kernels"},
    "server": {"server", "engine", "kernels"},
    "client": {"client"},
}
CONFINED = {
    r"grpc(pp)?/|grpcpp\.h|google/protobuf/|rally/v1/|\.pb\.h": {"server", "client"},
    r"cuda|cublas|nv": {"kernels"},
    r"prometheus/": {"server"},
    r"dnnl\.hpp|omp\.h": {"kernels"},
    r"CLI/": {"server", "client"},
}


def tracked(*suffixes):
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True).stdout.split("\n")
    return [ROOT / f for f in listed if f.endswith(suffixes) and (ROOT / f).exists()]


def relative(path):
    return str(path.relative_to(ROOT))


def includes(path):
    for line in path.read_text().splitlines():
        found = re.match(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', line)
        if found:
            yield found.group(1) or found.group(2)


def layer_includes():
    """(path, its layer, included name) of every include in the layers' sources."""
    for path in tracked(".h", ".cc", ".cu", ".cuh"):
        layer = relative(path).split("/")[0]
        if layer in LAYERS:
            for name in includes(path):
                yield path, layer, name


def functions(path):
    """(first line, number of lines) of each function: from its head, which may go over several
    lines, to the closing brace at the head's indentation."""
    lines = path.read_text().splitlines()
    opens = re.compile(r"^\s*\S.*\)\s*(const|override|noexcept|\s)*\{$")
    keywords = re.compile(r"^\s*(\}|else\b|if\b|for\b|while\b|switch\b|namespace\b|do\b|case\b)")
    for i, line in enumerate(lines):
        if not opens.match(line) or keywords.match(line):
            continue
        head = i
        while lines[head].lstrip().startswith(":") or (
                head > 0 and lines[head - 1].endswith((",", "(", "&&", "||", "="))):
            head -= 1
        indentation = len(lines[head]) - len(lines[head].lstrip())
        closing = re.compile(r"^ {%d}\}" % indentation)
        for j in range(i + 1, len(lines)):
            if closing.match(lines[j]):
                yield head + 1, j - head + 1
                break


class TidyTest(unittest.TestCase):
    def test_layers_point_one_way(self):
        bad = []
        for path, layer, name in layer_includes():
            top = name.split("/")[0]
            if top in LAYERS + ("tests",) and top not in MAY_INCLUDE[layer]:
                bad.append(f"{relative(path)} includes {name}")
        self.assertEqual(bad, [])

    def test_outside_headers_stay_in_their_layer(self):
        bad = []
        for path, layer, name in layer_includes():
            for pattern, layers in CONFINED.items():
                if re.match(pattern, name) and layer not in layers:
                    bad.append(f"{relative(path)} includes {name}")
        self.assertEqual(bad, [])

    def test_every_source_is_in_the_build(self):
        named = set()
        for path in tracked("CMakeLists.txt"):
            for name in re.findall(r"[\w./${}-]+\.(?:cc|cu|py)\b", path.read_text()):
                name = name.replace("${CMAKE_CURRENT_SOURCE_DIR}/", "")
                named.add((path.parent / name).resolve())
        bad = [
            relative(path)
            for path in tracked(".cc", ".cu", "_test.py")
            if relative(path).split("/")[0] in LAYERS + ("tests",) and path not in named
        ]
        self.assertEqual(bad, [], "files that no CMakeLists.txt names")

    def test_lines_and_files_are_short(self):
        bad = []
        for path in tracked(".h", ".cc", ".cu", ".cuh", ".proto", ".py", ".sh"):
            lines = path.read_text().splitlines()
            if len(lines) > MAX_FILE_LINES:
                bad.append(f"{relative(path)}: {len(lines)} lines")
            for i, line in enumerate(lines, 1):
                if len(line) > MAX_COLUMNS:
                    bad.append(f"{relative(path)}:{i}: {len(line)} columns")
        self.assertEqual(bad, [])

    def test_functions_are_short(self):
        bad = [
            f"{relative(path)}:{line}: {count} lines"
            for path in tracked(".cc", ".h", ".cu", ".cuh")
            for line, count in functions(path)
            if count > MAX_FUNCTION_LINES
        ]
        self.assertEqual(bad, [])

    def test_headers_are_guarded_by_their_path(self):
        bad = []
        for path in tracked(".h", ".cuh"):
            guard = "RALLY_" + re.sub(r"[^A-Za-z0-9]", "_", relative(path)).upper() + "_"
            if f"#ifndef {guard}\n#define {guard}\n" not in path.read_text():
                bad.append(f"{relative(path)}: wants {guard}")
        self.assertEqual(bad, [])

    def test_no_leftovers(self):
        banned = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
        bad = [
            f"{relative(path)}:{i}: {line.strip()}"
            for path in tracked(".h", ".cc", ".cu", ".cuh", ".proto", ".py", ".sh", ".md")
            if path != pathlib.Path(__file__).resolve()
            for i, line in enumerate(path.read_text().splitlines(), 1)
            if banned.search(line)
        ]
        self.assertEqual(bad, [])


if __name__ == "__main__":
    unittest.main()
