#!/usr/bin/env bash
# One command from a fresh clone to English text: installs what is missing, builds, gets a real
# model, starts the server on loopback, streams an answer, shows the figures, stops the server.
#
#   scripts/demo.sh [prompt]
. "$(dirname "$0")/lib.sh"

question=${*:-"Explain in two sentences why the sky is blue."}

"$RALLY_ROOT/scripts/install_packages.sh"
"$RALLY_ROOT/scripts/build.sh" release rally-server rally
model=$("$RALLY_ROOT/scripts/fetch_smollm2.sh" | tail -n 1)
bin="$RALLY_ROOT/build/release/bin"

free_port() {
  python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}
port=$(free_port)
metrics_port=$(free_port)
export RALLY_ADDR=127.0.0.1:$port
log="$RALLY_ROOT/build/release/log/demo-server.log"

stage "server: starting on $RALLY_ADDR (log in $log)"
"$bin/rally-server" --model "$model" --listen "$RALLY_ADDR" \
  --metrics-listen "127.0.0.1:$metrics_port" >"$log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true' EXIT
for _ in $(seq 600); do
  "$bin/rally" health >/dev/null 2>&1 && break
  kill -0 "$server" 2>/dev/null || { tail -n 20 "$log" >&2; fail "the server did not start"; }
  sleep 0.1
done
"$bin/rally" health >/dev/null || fail "the server is not healthy after a minute; see $log"

stage "generate: $question"
# SmolLM2-Instruct's turn markers: control tokens count as such only where the caller asks for it.
prompt=$(printf '<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n.' "$question")
"$bin/rally" generate --parse-special --temperature 0 --max-tokens 120 "${prompt%.}"

stage "idle: how long the device waited for the host between two steps"
curl --silent --fail "http://127.0.0.1:$metrics_port/metrics" | python3 -c '
import re, sys
text = sys.stdin.read()
def value(name, labels=""):
    found = re.search(r"^%s\{[^}]*%s[^}]*\} (\S+)$" % (name, labels), text, re.M)
    return float(found.group(1)) if found else 0.0
steps = value("rally_idle_bubble_seconds_count")
bubble = value("rally_idle_seconds_total", "cause=\"bubble\"")
busy = value("rally_busy_seconds_total")
print("    %d gaps, %.1f us idle a step on average, %.2f %% of the busy time"
      % (steps, bubble / max(steps, 1) * 1e6, 100 * bubble / max(busy, 1e-9)))
'
stage "server: stopping"
kill -TERM "$server"
wait "$server" && code=0 || code=$?
trap - EXIT
[[ $code -eq 0 ]] || fail "the server ended with exit code $code; see $log"
stage "done"
