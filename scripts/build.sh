#!/usr/bin/env bash
# Configures and builds one preset: build.sh PRESET [TARGET...]. Extra CMake options come in
# RALLY_CMAKE_OPTIONS.
. "$(dirname "$0")/lib.sh"

preset=$1
shift
cd "$RALLY_ROOT"
log="build/$preset/log"
stage "configure: $preset"
# shellcheck disable=SC2086
quietly "$log/configure.log" cmake --preset "$preset" ${RALLY_CMAKE_OPTIONS:-}
stage "build: ${*:-everything} (the first time takes minutes; log in $log/build.log)"
targets=()
[[ $# -gt 0 ]] && targets=(--target "$@")
if [[ -t 1 ]]; then
  cmake --build "build/$preset" "${targets[@]}"
else
  quietly "$log/build.log" cmake --build "build/$preset" "${targets[@]}"
fi
