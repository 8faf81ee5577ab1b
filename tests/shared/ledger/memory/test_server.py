"""A server in memory answers as a real one: packing, commands within scripts, streams."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
import redis
from hypothesis import example, given
from hypothesis import strategies as st
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, ResponseError

from shared.ledger.memory.client import MemoryClient
from shared.ledger.memory.server import MemoryServer
from shared.ledger.memory.synchronous import at_once
from shared.ledger.redis.server import EmbeddedServer
from tests.conftest import flush

LOG, HASH = b"{t}:log", b"{t}:hash"


def packed(value: Any) -> bytes:
    """With texts as raw bytes, as the ledger's client packs."""
    data: bytes = msgpack.packb(value, use_bin_type=False)
    return data


class BothServers:
    """One script on both servers, with these keys."""

    def __init__(self, url: str) -> None:
        self._real = redis.Redis.from_url(url, protocol=2)
        self._memory = MemoryServer(clock=lambda: 1.5, nonce=lambda: "ab12")

    def run(self, text: str, *args: bytes) -> tuple[Any, Any]:
        """Answers; of errors their first words."""
        return self._on_real(text, args), self._in_memory(text.encode(), args)

    def _on_real(self, text: str, args: tuple[bytes, ...]) -> Any:
        try:
            return self._real.eval(text, 1, HASH, *args)
        except ResponseError as error:
            return str(error).partition(" script: ")[0]

    def _in_memory(self, text: bytes, args: tuple[bytes, ...]) -> Any:
        self._memory.load(text)
        sha = hashlib.sha1(text, usedforsecurity=False).hexdigest()
        try:
            return self._memory.evalsha(sha, 1, HASH, *args)
        except ResponseError as error:
            return str(error)

    def close(self) -> None:
        self._real.close()


@pytest.fixture(scope="module")
def both(embedded_server: EmbeddedServer) -> Iterator[BothServers]:
    both_servers = BothServers(embedded_server.url)
    yield both_servers
    both_servers.close()


# --- packing ------------------------------------------------------------------------------------

WHOLE = st.integers(-(2**53), 2**53)
NUMBERS = WHOLE | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = NUMBERS | st.booleans() | st.binary(max_size=300)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=20), max_leaves=40)


@given(value=VALUES)
@example(value=[0, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, -1, -32, -33, -128])
@example(value=[-129, -32768, -32769, -(2**31), -(2**31) - 1, 0.5, 1e300, b"x" * 70_000])
@example(value=[[], [[]], [0] * 15, [0] * 16, [b"y" * 31, b"y" * 32, b"y" * 256]])
@example(value=[7] * 66_000)
def test_values_are_read_and_packed_to_the_same_bytes(both: BothServers, value: Any) -> None:
    text = "return cmsgpack.pack(cmsgpack.unpack(ARGV[1]))"
    real, memory = both.run(text, packed(value))
    assert real == memory


@pytest.mark.parametrize("data", [b"\xc4\x01a", b"\xc7\x01\x01a", b"\xd4\x01a", b"\xc1"])
def test_bytes_of_another_form_are_refused(both: BothServers, data: bytes) -> None:
    real, memory = both.run("return cmsgpack.unpack(ARGV[1])", data)
    assert memory == "Bad data format in input." and memory in real


@given(value=st.dictionaries(st.binary(max_size=9), NUMBERS, max_size=20))
def test_maps_are_read_and_packed_alike(both: BothServers, value: dict[bytes, float]) -> None:
    text = "return cmsgpack.pack(cmsgpack.unpack(ARGV[1]))"
    real, memory = both.run(text, packed(value))
    assert msgpack.unpackb(real, raw=True) == msgpack.unpackb(memory, raw=True)


@pytest.mark.parametrize("cut", [0, 1, 2, 5])
def test_truncated_msgpack_is_refused(both: BothServers, cut: int) -> None:
    text = "return tostring(pcall(cmsgpack.unpack, ARGV[1]))"
    real, memory = both.run(text, packed([b"abcdef", 1])[:cut])
    assert real == memory == (b"true" if cut == 0 else b"false")


@given(
    number=st.floats(allow_nan=False).map(lambda n: n + 0.0),  # -0.0 comes to Python as 0
    state=st.integers(0, 255),
    whole=st.integers(0, 2**32 - 1),
    small=st.integers(0, 2**16 - 1),
    signed=st.integers(-(2**31), 2**31 - 1),
    text=st.binary(max_size=9).map(lambda text: text.replace(b"\0", b"")),
)
def test_numbers_have_the_same_bytes(both: BothServers, **parts: Any) -> None:
    script = """
        local p = cmsgpack.unpack(ARGV[1])
        local bytes = struct.pack('<dBI4I2i4', p.number, p.state, p.whole, p.small, p.signed)
        local at = {struct.unpack('<dBI4I2i4', bytes)}
        local named = p.text .. struct.pack('<BB', 0, p.state)
        local name, size, next = struct.unpack('<sB', 'ab' .. named, 3)
        return {bytes, at[3], at[4], at[5], at[6], name, size, next, redis.sha1hex(bytes)}
    """
    real, memory = both.run(script, packed(parts))
    assert real == memory


# --- commands within scripts ----------------------------------------------------------------------

FIELDS = st.sampled_from([b"a", b"b", b"1", b"17"])
COMMANDS = st.one_of(
    st.tuples(st.just(b"HSET"), FIELDS, st.binary(max_size=3)).map(list),
    st.tuples(st.just(b"HSET"), FIELDS, WHOLE, FIELDS, FIELDS).map(list),
    st.tuples(st.just(b"HDEL"), FIELDS, FIELDS).map(list),
    st.tuples(st.just(b"HGET"), FIELDS | WHOLE).map(list),
    st.tuples(st.just(b"HMGET"), FIELDS, st.integers(1, 17), FIELDS).map(list),
    st.sampled_from([[b"HLEN"], [b"HKEYS"], [b"TYPE"], [b"DEL"]]),
)


@given(commands=st.lists(COMMANDS, max_size=12))
def test_commands_on_hashes_answer_alike(both: BothServers, commands: list[list[Any]]) -> None:
    script = """
        redis.call('DEL', KEYS[1])
        local answers = {}
        for i, command in ipairs(cmsgpack.unpack(ARGV[1])) do
          local answer = redis.call(command[1], KEYS[1], unpack(command, 2))
          if command[1] == 'HKEYS' then table.sort(answer) end
          if command[1] == 'TYPE' then answer = answer.ok end
          local writes = {HSET = true, HDEL = true, DEL = true}
          answers[i] = writes[command[1]] and 'done' or answer
        end
        return answers
    """
    real, memory = both.run(script, packed(commands))
    assert real == memory


@pytest.mark.parametrize("count", [3, 10, 1000])
def test_pages_of_a_hash_have_each_field_once(both: BothServers, count: int) -> None:
    script = """
        redis.call('DEL', KEYS[1])
        for i = 1, 700 do redis.call('HSET', KEYS[1], 'f' .. i, string.rep('v', 100) .. i) end
        local cursor, found = '0', {}
        repeat
          local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', tonumber(ARGV[1]))
          cursor = page[1]
          for i = 1, #page[2], 2 do found[#found + 1] = page[2][i] .. '=' .. page[2][i + 1] end
        until cursor == '0'
        table.sort(found)
        return found
    """
    real, memory = both.run(script, b"%d" % count)
    assert real == memory and len(memory) == 700


@pytest.mark.parametrize("count", [3, 100])
def test_hscan_returns_every_field_that_stays_during_the_scan(
    both: BothServers, count: int
) -> None:
    script = """
        redis.call('DEL', KEYS[1])
        for i = 1, 700 do redis.call('HSET', KEYS[1], 'f' .. i, string.rep('v', 100)) end
        local cursor, stays, number = '0', {}, 0
        repeat
          local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', tonumber(ARGV[1]))
          cursor = page[1]
          for i = 1, #page[2], 2 do
            local n = tonumber(string.match(page[2][i], '^f(%d+)$'))
            if n and n % 2 == 0 then stays[n] = true end
          end
          number = number + 1
          redis.call('HSET', KEYS[1], 'new' .. number, 'v')
          redis.call('HDEL', KEYS[1], 'f' .. 2 * number - 1, 'new' .. number - 3)
        until cursor == '0'
        local n = 0
        for _ in pairs(stays) do n = n + 1 end
        return n
    """
    assert both.run(script, b"%d" % count) == (350, 350)


def test_time_run_and_errors(both: BothServers) -> None:
    assert both.run("return redis.call('TIME')")[1] == [b"1", b"500000"]
    run = "return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')"
    assert both.run(run)[1] == b"ab12"
    real, memory = both.run("error('QUADRANT no such thing', 0)")
    assert memory == "QUADRANT no such thing" and memory in real
    assert both.run("return {1, false, 2}") == ([1, None, 2], [1, None, 2])
    assert both.run("return {{1, {'x'}}, {}}") == ([[1, [b"x"]], []],) * 2
    assert both.run("return {2.7, -2.7, true, 'text'}") == ([2, -2, 1, b"text"],) * 2
    many = "local l = {} for i = 1, 9000 do l[i] = i end return l"
    assert both.run(many) == ([*range(1, 9001)],) * 2
    assert both.run("return nil") == (None, None)


@pytest.mark.parametrize("text", ["return no_such_name", "new_name = 1", "KEY = KEYS"])
def test_undeclared_globals_are_an_error(both: BothServers, text: str) -> None:
    for answer in both.run(text):
        assert "nonexistent global variable" in answer or "readonly table" in answer


def test_a_server_that_was_restarted_has_forgotten_its_scripts() -> None:
    server = MemoryServer(clock=lambda: 0.0, nonce=lambda: "")
    sha = hashlib.sha1(b"return 1", usedforsecurity=False).hexdigest()
    for _ in range(2):
        with pytest.raises(NoScriptError):
            server.evalsha(sha, 0)
        server.load(b"return 1")
        assert server.evalsha(sha, 0) == 1
        server.restart()


# --- streams --------------------------------------------------------------------------------------

ADD = "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'p', i) end return 1"

LOOK = """
    local function values(entries)
      local found = {}
      for i, entry in ipairs(entries) do found[i] = entry[2][1] .. entry[2][2] end
      return table.concat(found, ' ')
    end
    local value_of = {}
    for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do
      value_of[entry[1]] = entry[2][2]
    end
    local waiting, all = {}, redis.call('XPENDING', KEYS[1], 'g')
    for i, one in ipairs(redis.call('XPENDING', KEYS[1], 'g', ARGV[1], ARGV[2], 9)) do
      waiting[i] = value_of[one[1]]
    end
    local group = {}
    local flat = redis.call('XINFO', 'GROUPS', KEYS[1])[1]
    for i = 1, #flat, 2 do group[flat[i]] = flat[i + 1] end
    return {
      values(redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', 2)),
      values(redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2])),
      all[1], value_of[all[2]], value_of[all[3]], table.concat(waiting, ' '),
      group.name, value_of[group['last-delivered-id']],
    }
"""
"""A script's view of the stream, entries by their values."""


async def within_a_script(client: Any, text: str, *args: str) -> Any:
    await client.execute_command("SCRIPT LOAD", text.encode())
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    packed_args = (arg.encode() for arg in args)
    return await client.execute_command("EVALSHA", sha, 1, LOG, *packed_args)


def _between(entry_id: str) -> str:
    """An id right behind this one, which no entry has."""
    number, _, second = entry_id.partition("-")
    return f"{number}-{int(second) + 1}"


class Heard:
    """Answers about a stream, with ids replaced by their places in it."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._places: dict[bytes, int] = {}

    def entries(self, reply: list[tuple[bytes, dict[bytes, bytes]]]) -> list[str]:
        """Their ids."""
        for entry_id, _ in reply:
            self._places.setdefault(entry_id, len(self._places) + 1)
        self.all.append([(self._places[entry_id], fields) for entry_id, fields in reply])
        return [entry_id.decode() for entry_id, _ in reply]

    def streams(self, reply: list[Any]) -> None:
        """An answer to XREAD."""
        self.entries(reply[0][1] if reply else [])

    def facts(self, reply: dict[str, Any], *names: str) -> None:
        self.all.append([self._places.get(reply[name], reply[name]) for name in names])


async def story(client: Any) -> list[Any]:
    """Answers to a client of a stream with a group."""
    heard = Heard()
    with pytest.raises(ResponseError, match="BUSYGROUP"):
        for _ in range(2):
            await client.xgroup_create(LOG, "g", id="0", mkstream=True)
    heard.facts(await client.xinfo_stream(LOG), "last-generated-id")
    for _ in range(7):  # one by one, in moments of their own
        await within_a_script(client, ADD, "1")
        await asyncio.sleep(0.002)
    ids = heard.entries(await client.xrange(LOG))
    heard.facts(await client.xinfo_stream(LOG), "last-generated-id")
    third, fifth, last = ids[2], ids[4], ids[6]
    before, after = _between(third), _between(fifth)
    heard.streams(await client.xread({LOG: third}, count=2, block=None))
    heard.streams(await client.xread({LOG: last}, count=2, block=1))
    heard.entries(await client.xrange(LOG, third, fifth))
    heard.entries(await client.xrange(LOG, before, after))
    heard.entries(await client.xrange(LOG, f"({before}", f"({after}"))
    heard.entries(await client.xrange(LOG, before, before))
    for most in (f"({fifth}", f"({after}"):
        heard.entries(await client.xrevrange(LOG, max=most, count=1))
    heard.streams(await client.xread({LOG: before}, count=2, block=None))
    for count in (2, 3):
        heard.streams(await client.xreadgroup("g", "c", {LOG: ">"}, count=count, block=None))
    await client.xack(LOG, "g", ids[0], third)
    heard.facts(await client.xpending(LOG, "g"), "pending", "min")
    heard.entries((await client.xautoclaim(LOG, "g", "d", min_idle_time=0, count=9))[1])
    heard.facts((await client.xinfo_groups(LOG))[0], "name", "last-delivered-id")
    heard.all.append(await within_a_script(client, LOOK, third, fifth))
    for lowest in (fifth, after):
        await client.xtrim(LOG, minid=lowest, approximate=False)
        heard.entries(await client.xrange(LOG))
    heard.streams(await client.xread({LOG: "0"}, count=9, block=None))
    await client.xack(LOG, "g", *ids)
    heard.facts(await client.xpending(LOG, "g"), "pending", "min")
    for block in (None, 1):
        heard.streams(await client.xreadgroup("g", "c", {LOG: ">"}, count=9, block=block))
    heard.facts(await client.xinfo_stream(LOG), "last-generated-id")
    return heard.all


async def test_a_stream_tells_the_same_story(embedded_server: EmbeddedServer) -> None:
    flush(embedded_server)
    async with Redis.from_url(embedded_server.url, protocol=2) as client:
        real = await story(client)
    server = MemoryServer(clock=lambda: 0.0, nonce=lambda: "", streams=[LOG])
    memory = await story(MemoryClient(server))
    assert real == memory
    assert len(real) == 25


def test_without_its_group_a_stream_is_not_read() -> None:
    client = MemoryClient(MemoryServer(clock=lambda: 0.0, nonce=lambda: "", streams=[LOG]))
    with pytest.raises(ResponseError, match="NOGROUP"):
        at_once(client.xreadgroup("g", "c", {LOG: ">"}, count=1, block=None))


# --- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 2500])
def test_a_hash_is_read_whole(size: int) -> None:
    server = MemoryServer(clock=lambda: 0.0, nonce=lambda: "")
    for number in range(size):
        server.call(b"HSET", HASH, b"%d" % number, b"v%d" % number)
    assert server.hash(HASH) == {b"%d" % n: b"v%d" % n for n in range(size)}


def test_a_copy_has_nothing_that_came_after_it() -> None:
    server = MemoryServer(clock=lambda: 0.0, nonce=lambda: "", streams=[LOG])
    client = MemoryClient(server)

    def go_on(number: int) -> None:
        server.call(b"HSET", HASH, b"last", b"%d" % number)
        at_once(within_a_script(client, ADD, "1"))
        at_once(client.xreadgroup("g", "c", {LOG: ">"}, count=9, block=None))

    def now() -> Any:
        pending = at_once(client.xpending(LOG, "g"))["pending"]
        ids = [entry_id for entry_id, _ in at_once(client.xrange(LOG))]
        return server.hash(HASH), pending, ids

    at_once(client.xgroup_create(LOG, "g", id="0", mkstream=True))
    go_on(1)
    then, copied = now(), server.copy()
    for number in (2, 3):
        go_on(number)
        assert now() != then
        server.bring_back(copied)
        assert now() == then
    go_on(4)
    assert now()[2] == [b"1-0", b"4-0"], "an id was given twice"
