#!/usr/bin/env bash
# The whole test suite, from a fresh clone: installs what is missing, builds, runs everything. The
# last line is "N passed, N failed", with ", N skipped" where any were.
. "$(dirname "$0")/lib.sh"

"$RALLY_ROOT/scripts/install_packages.sh"

venv="$RALLY_CACHE/venv-test"
requirements="$RALLY_ROOT/tests/requirements.txt"
if ! cmp -s "$requirements" "$venv/requirements.txt"; then
  stage "python: the packages that tests compare with"
  rm -rf "$venv"
  python3 -m venv "$venv"
  quietly "$RALLY_CACHE/log/pip.log" "$venv/bin/pip" install --disable-pip-version-check \
    -r "$requirements"
  cp "$requirements" "$venv/requirements.txt"
fi

model=$("$RALLY_ROOT/scripts/fetch_smollm2.sh" | tail -n 1)
export RALLY_CMAKE_OPTIONS="-DRALLY_PYTHON=$venv/bin/python"
"$RALLY_ROOT/scripts/build.sh" release

stage "test: everything"
export RALLY_SMOLLM2_GGUF=$model
exec "$venv/bin/python" "$RALLY_ROOT/scripts/run_tests.py" "$RALLY_ROOT/build/release" "$@"
