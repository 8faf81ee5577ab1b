#!/usr/bin/env bash
# Ray: a user's first local `ray.init()` changes what that user's clusters accept from then on.
#
# `ray.init()` on a machine writes ~/.ray/auth_token. A head that the same user starts afterwards asks
# everybody for a token, and `ray start --address` of the same user, in the same home, with the same
# file, is refused: "Authentication token is missing or incorrect". In a home without that file the
# same two commands make a cluster of two nodes.
set -euo pipefail
RAY=2.60.0
PORT=${PORT:-6392}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" --disable-pip-version-check install --quiet "ray==$RAY"
export RAY_USAGE_STATS_ENABLED=0 PYTHONWARNINGS=ignore
ray=$work/venv/bin/ray

joins() { # HOME PORT: "joined" or "refused", of a second node beside a head of the same home
  local head node answer="neither"
  export HOME=$1
  "$ray" start --head --block --port "$2" --num-cpus 1 --include-dashboard=false \
    --temp-dir "$work/r$2" >"$work/head$2" 2>&1 &
  head=$!
  for _ in $(seq 60); do grep -q 'Ray runtime started' "$work/head$2" && break || sleep 1; done
  timeout 45 "$ray" start --address "127.0.0.1:$2" --num-cpus 1 --block >"$work/node$2" 2>&1 &
  node=$!
  for _ in $(seq 40); do
    grep -q 'Ray runtime started' "$work/node$2" && answer=joined && break
    grep -q 'token is missing or incorrect' "$work/node$2" && answer=refused && break
    sleep 1
  done
  kill -TERM "$node" "$head" 2>/dev/null || true
  wait "$node" "$head" 2>/dev/null || true
  echo "$answer"
}

mkdir "$work/fresh" "$work/used"
HOME=$work/used "$work/venv/bin/python" -c '
import ray
ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR")
ray.shutdown()' >/dev/null 2>&1
written=no
[ -s "$work/used/.ray/auth_token" ] && written=yes
fresh=$(joins "$work/fresh" "$PORT")
used=$(joins "$work/used" "$((PORT + 1))")
echo "Ray $RAY: ray.init() wrote ~/.ray/auth_token: $written. A second node of the same user:"
echo "  in a home without the file: $fresh"
echo "  in the home with the file:  $used"
[ "$written $fresh $used" = "yes joined refused" ] || { echo "This has changed." && exit 1; }
