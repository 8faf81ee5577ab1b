#!/usr/bin/env bash
# Ray: `ray start --head --block` goes on for ever after its raylet has ended by SIGTERM.
#
# --block is how Ray runs under systemd, in containers and under a supervisor: the command is expected
# to end when a process that the node cannot do without ends. A raylet that ends by SIGTERM counts as
# a graceful end: nothing is printed, the command goes on, and the head has no raylet, so that no task
# and no actor starts on it. Who watches the command sees a healthy head.
set -euo pipefail
RAY=2.60.0
PORT=${PORT:-6391}
work=$(mktemp -d)
head=
finish() {
  [ -z "$head" ] || kill -TERM "$head" 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap finish EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" --disable-pip-version-check install --quiet "ray==$RAY"
export HOME=$work RAY_USAGE_STATS_ENABLED=0 PYTHONWARNINGS=ignore
"$work/venv/bin/ray" start --head --block --port "$PORT" --num-cpus 1 --include-dashboard=false \
  --temp-dir "$work/r" >"$work/output" 2>&1 &
head=$!

raylet() { # the process id of this node's raylet
  pgrep -f "raylet/raylet --raylet_socket_name=$work/r/" || true
}
for _ in $(seq 60); do
  [ -n "$(raylet)" ] && grep -q 'Ray runtime started' "$work/output" && break
  sleep 1
done
first=$(raylet)
[ -n "$first" ] || { echo "The head did not start:" && cat "$work/output" && exit 1; }
kill -TERM "$first"
sleep 20

left=$(raylet)
alive=no
kill -0 "$head" 2>/dev/null && alive=yes
echo "Ray $RAY: 20 s after SIGTERM to the raylet: raylets ${left:-none}, 'ray start --block' running: $alive"
[ -z "$left" ] && [ "$alive" = yes ] || { echo "This has changed." && exit 1; }
