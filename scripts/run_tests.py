#!/usr/bin/env python3
"""Runs ctest and counts test cases, not programs: run_tests.py BUILD_DIR [ctest options].

A GoogleTest program counts with its cases, anything else as one. The last line printed is
"N passed, N failed", with ", N skipped" where any were; the exit code is 1 where any failed.
"""
import pathlib
import shutil
import subprocess
import sys
import os
import xml.etree.ElementTree as ET


def count_cases(path):
    """(passed, failed, skipped, names of failed) of one GoogleTest report."""
    passed = failed = skipped = 0
    names = []
    for case in ET.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None:
            failed += 1
            names.append(f"{case.get('classname')}.{case.get('name')}")
        elif case.get("result") == "skipped" or case.find("skipped") is not None:
            skipped += 1
            reason = (case.find("skipped").get("message") or "").strip().splitlines()
            print(f"skipped: {case.get('classname')}.{case.get('name')}: {' '.join(reason[-1:])}")
        elif case.get("status") == "run":
            passed += 1
    return passed, failed, skipped, names


def main():
    build = pathlib.Path(sys.argv[1])
    reports = build / "test-reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    junit = reports / "ctest.xml"
    environment = dict(os.environ, GTEST_OUTPUT=f"xml:{reports.resolve()}/gtest/")
    subprocess.run(
        ["ctest", "--test-dir", str(build), "--output-on-failure", "--output-junit",
         str(junit.resolve()), *sys.argv[2:]],
        env=environment, check=False)
    if not junit.exists():
        print("0 passed, 1 failed")
        return 1
    passed = failed = skipped = 0
    for test in ET.parse(junit).getroot().iter("testcase"):
        name, status = test.get("name"), test.get("status")
        report = reports / "gtest" / f"{name}.xml"
        if report.exists():
            p, f, s, names = count_cases(report)
            if status == "fail" and f == 0:
                f, names = 1, [f"{name} (the program itself)"]
        else:
            s = int(status in ("notrun", "disabled", "skipped"))
            f = int(status == "fail")
            p = int(not s and not f)
            names = [name] * f
            if s:
                print(f"skipped: {name}")
        for failure in names:
            print(f"failed: {failure}")
        passed, failed, skipped = passed + p, failed + f, skipped + s
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
