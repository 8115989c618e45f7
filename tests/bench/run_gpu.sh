#!/usr/bin/env bash
# All GPU benchmarks on this machine, in one command:
#
#   tests/bench/run_gpu.sh [BUILD_DIR] [decode smollm2 llama ladder peers idle_view]
#
# Without names, everything. Snapshots go to tests/bench/snapshots/<gpu>/ (RALLY_SNAPSHOTS names
# another folder) and BENCHMARKS.md is written anew. One failure does not stop the rest; the exit
# status tells. RALLY_COMMIT names the commit where the tree has no history, RALLY_PEER_PYTHON the
# Python with torch and transformers.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${1:-$root/build/cuda}
[[ $# -gt 0 ]] && shift
wanted=" ${*:-decode smollm2 llama ladder peers idle_view} "
bench=$build/tests/bench/decode/decode_bench
cupti=$build/tests/bench/idle_view/librally_cupti_trace.so
snapshots=${RALLY_SNAPSHOTS:-$here/snapshots}
device=${RALLY_DEVICE:-cuda:0}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

if [[ ! -x $bench ]]; then
  echo "run_gpu.sh: no $bench; build it: scripts/build.sh cuda decode_bench" >&2
  exit 2
fi

# take GROUP NAME COMMAND...: runs a command that writes NAME.json, and keeps that as a snapshot.
take() {
  local group=$1 name=$2
  shift 2
  echo "==> $name"
  if "$@" --json "$work/$name.json"; then
    python3 "$here/snapshot.py" "$work/$name.json" --out "$snapshots" \
      --command "tests/bench/run_gpu.sh ${build#"$root"/} $group" || status=1
  else
    echo "run_gpu.sh: $name failed" >&2
    status=1
  fi
}

runs() { [[ $wanted == *" $1 "* ]]; }

if runs decode; then
  take decode decode_gpt2 "$bench" --device "$device" --config "$here/configs/gpt2" --dtype bf16 \
    --loop sync,copy-stream,pingpong --batch 1,8,32 --context 128,512 --prefill 128,512,1024
  take decode decode_gpt2_large_batch "$bench" --device "$device" --config "$here/configs/gpt2" \
    --dtype bf16 --loop sync,pingpong --batch 64,256 --context 256
fi
if runs smollm2; then
  model=${RALLY_SMOLLM2_GGUF:-$("$root/scripts/fetch_smollm2.sh" | tail -n 1)}
  take smollm2 decode_smollm2-135m "$bench" --device "$device" --model "$model" --dtype bf16 \
    --loop sync,pingpong --batch 1,8,32 --context 128 --prefill 512
fi
if runs llama; then
  take llama decode_llama-3.1-8b "$bench" --device "$device" --config "$here/configs/llama-3.1-8b" \
    --dtype bf16 --loop sync,pingpong --batch 1,64 --context 512 --prefill 512,2048
fi
if runs ladder; then
  take ladder ladder_gpt2 python3 "$here/ladder/ladder.py" --bench "$bench" --device "$device" \
    --config "$here/configs/gpt2" --dtype bf16 --batch 1,32 --context 512
fi
if runs peers; then
  take peers peers_gpt2 "${RALLY_PEER_PYTHON:-python3}" "$here/peers/hf_ladder.py" --batch 1,32 \
    --context 128
fi
if runs idle_view; then
  if [[ -e $cupti ]]; then
    # The folder of libcupti, where the loader does not find it by itself.
    if ldd "$cupti" | grep -q 'libcupti.*not found'; then
      found=$(find / -name 'libcupti.so.1[23]*' -not -path '/proc/*' 2>/dev/null | head -n 1)
      export LD_LIBRARY_PATH=${found%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    fi
    for loop in sync pingpong; do
      CUDA_INJECTION64_PATH=$cupti RALLY_CUPTI_FILE=$work/$loop.cupti.csv "$bench" \
        --device "$device" --config "$here/configs/gpt2" --dtype bf16 --loop "$loop" --batch 1 \
        --context 512 --trace "$work/$loop.csv" || status=1
    done
    # A disagreement is a result too, and is kept.
    python3 "$here/idle_view/compare.py" --sync "$work/sync.csv" "$work/sync.cupti.csv" \
      --pingpong "$work/pingpong.csv" "$work/pingpong.cupti.csv" \
      --json "$work/idle_view_gpt2.json" || status=1
    [[ -e $work/idle_view_gpt2.json ]] &&
      python3 "$here/snapshot.py" "$work/idle_view_gpt2.json" --out "$snapshots" \
        --command "tests/bench/run_gpu.sh ${build#"$root"/} idle_view"
  else
    echo "run_gpu.sh: no $cupti: CUPTI was not there when this was built" >&2
    status=1
  fi
fi

[[ $snapshots == "$here/snapshots" ]] && python3 "$here/report.py"
exit "$status"
