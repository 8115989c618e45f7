#!/usr/bin/env bash
# The engine's tests under AddressSanitizer + UBSan and under ThreadSanitizer:
#   scripts/sanitize.sh [asan] [tsan]     (both by default)
. "$(dirname "$0")/lib.sh"

targets=(simulation_test planted_faults_test engine_test scheduler_test step_effects_test
  id_pool_test admission_test output_test device_conformance_test host_device_test
  generation_test rally_stream_test)
[[ $# -gt 0 ]] || set -- asan tsan
for preset in "$@"; do
  "$RALLY_ROOT/scripts/build.sh" "$preset" "${targets[@]}"
  stage "test: ${targets[*]} ($preset)"
  pattern=$(IFS='|'; echo "${targets[*]}")
  RALLY_SIM_SEEDS=${RALLY_SIM_SEEDS:-300} TSAN_OPTIONS=halt_on_error=1 \
    ctest --test-dir "$RALLY_ROOT/build/$preset" --output-on-failure -R "^($pattern)\$"
done
