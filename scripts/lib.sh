# Shared by the scripts of this folder; sourced, not run.
set -euo pipefail

RALLY_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Downloads and Python environments live outside the tree, so that a fresh clone finds them again.
RALLY_CACHE=${RALLY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rally}
mkdir -p "$RALLY_CACHE"

stage() { printf '==> %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Runs a command quietly into a log; shows the log's end where it fails.
quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    fail "'$*' failed; the whole log is $log"
  fi
}
