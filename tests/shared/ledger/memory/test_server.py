"""A server in memory answers as a real one: packing, commands within scripts, streams."""

from __future__ import annotations

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
from shared.ledger.redis.server import EmbeddedServer
from tests.shared.ledger.conftest import flush

LOG, HASH = b"{t}:log", b"{t}:hash"


def packed(value: Any) -> bytes:
    """With texts as raw bytes, as the ledger's client packs."""
    data: bytes = msgpack.packb(value, use_bin_type=False)
    return data


class Both:
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
def both(embedded_server: EmbeddedServer) -> Iterator[Both]:
    made = Both(embedded_server.url)
    yield made
    made.close()


# --- packing ------------------------------------------------------------------------------------

NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = NUMBERS | st.booleans() | st.binary(max_size=300)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=20), max_leaves=40)


@given(value=VALUES)
@example(value=[0, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, -1, -32, -33, -128])
@example(value=[-129, -32768, -32769, -(2**31), -(2**31) - 1, 0.5, 1e300, b"x" * 70_000])
@example(value=[[], [[]], [0] * 15, [0] * 16, [b"y" * 31, b"y" * 32, b"y" * 256]])
@example(value=[7] * 66_000)
def test_values_are_read_and_packed_to_the_same_bytes(both: Both, value: Any) -> None:
    text = "return cmsgpack.pack(cmsgpack.unpack(ARGV[1]))"
    real, memory = both.run(text, packed(value))
    assert real == memory


@pytest.mark.parametrize("data", [b"\xc4\x01a", b"\xc7\x01\x01a", b"\xd4\x01a", b"\xc1"])
def test_bytes_of_another_form_are_refused(both: Both, data: bytes) -> None:
    real, memory = both.run("return cmsgpack.unpack(ARGV[1])", data)
    assert memory == "Bad data format in input." and memory in real


@given(value=st.dictionaries(st.binary(max_size=9), NUMBERS, max_size=20))
def test_maps_are_read_and_packed_alike(both: Both, value: dict[bytes, float]) -> None:
    text = "return cmsgpack.pack(cmsgpack.unpack(ARGV[1]))"
    real, memory = both.run(text, packed(value))
    assert msgpack.unpackb(real, raw=True) == msgpack.unpackb(memory, raw=True)


@pytest.mark.parametrize("cut", [0, 1, 2, 5])
def test_what_is_cut_off_is_refused(both: Both, cut: int) -> None:
    text = "return tostring(pcall(cmsgpack.unpack, ARGV[1]))"
    real, memory = both.run(text, packed([b"abcdef", 1])[:cut])
    assert real == memory == (b"true" if cut == 0 else b"false")


@given(
    number=st.floats(allow_nan=False),
    state=st.integers(0, 255),
    whole=st.integers(0, 2**32 - 1),
    small=st.integers(0, 2**16 - 1),
    signed=st.integers(-(2**31), 2**31 - 1),
    text=st.binary(max_size=9).map(lambda text: text.replace(b"\0", b"")),
)
def test_numbers_have_the_same_bytes(both: Both, **parts: Any) -> None:
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
    st.tuples(st.just(b"HSET"), FIELDS, st.integers(-5, 2**40), FIELDS, FIELDS).map(list),
    st.tuples(st.just(b"HDEL"), FIELDS, FIELDS).map(list),
    st.tuples(st.just(b"HGET"), FIELDS | st.integers(1, 17)).map(list),
    st.tuples(st.just(b"HMGET"), FIELDS, st.integers(1, 17), FIELDS).map(list),
    st.sampled_from([[b"HLEN"], [b"HKEYS"], [b"TYPE"], [b"DEL"]]),
)


@given(commands=st.lists(COMMANDS, max_size=12))
def test_commands_on_hashes_answer_alike(both: Both, commands: list[list[Any]]) -> None:
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
def test_pages_of_a_hash_have_each_field_once(both: Both, count: int) -> None:
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


def test_time_run_and_errors(both: Both) -> None:
    assert both.run("return redis.call('TIME')")[1] == [b"1", b"500000"]
    run = "return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')"
    assert both.run(run)[1] == b"ab12"
    real, memory = both.run("error('QUADRANT no such thing', 0)")
    assert memory == "QUADRANT no such thing" and memory in real
    assert both.run("return {1, false, 2}") == ([1, None, 2], [1, None, 2])
    assert both.run("return {{1, {b'x'}}, {}}".replace("b'", "'")) == ([[1, [b"x"]], []],) * 2
    assert both.run("return nil") == (None, None)


async def test_a_script_that_is_not_loaded_is_not_there() -> None:
    client = MemoryClient(MemoryServer(clock=lambda: 0.0, nonce=lambda: ""))
    with pytest.raises(NoScriptError):
        await client.execute_command("EVALSHA", "0" * 40, 0)


# --- streams --------------------------------------------------------------------------------------

ADD = "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'p', i) end return 1"


async def adding(client: Any, count: int) -> None:
    await client.execute_command("SCRIPT LOAD", ADD.encode())
    sha = hashlib.sha1(ADD.encode(), usedforsecurity=False).hexdigest()
    await client.execute_command("EVALSHA", sha, 1, LOG, b"%d" % count)


class Heard:
    """What a client heard of a stream, with ids as the places that they have in it."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._places: dict[bytes, int] = {}

    def entries(self, told: list[tuple[bytes, dict[bytes, bytes]]]) -> list[bytes]:
        for entry_id, _ in told:
            self._places.setdefault(entry_id, len(self._places) + 1)
        self.all.append([(self._places[entry_id], fields) for entry_id, fields in told])
        return [entry_id for entry_id, _ in told]

    def streams(self, told: list[Any]) -> None:
        """An answer to XREAD."""
        self.entries(told[0][1] if told else [])

    def facts(self, told: dict[str, Any], *names: str) -> None:
        self.all.append([self._places.get(told[name], told[name]) for name in names])


async def story(client: Any) -> list[Any]:
    """What a client hears of a stream with a group."""
    heard = Heard()
    with pytest.raises(ResponseError, match="BUSYGROUP"):
        for _ in range(2):
            await client.xgroup_create(LOG, "g", id="0", mkstream=True)
    heard.facts(await client.xinfo_stream(LOG), "last-generated-id")
    await adding(client, 7)
    ids = heard.entries(await client.xrange(LOG))
    heard.facts(await client.xinfo_stream(LOG), "last-generated-id")
    third, fifth, last = ids[2].decode(), ids[4].decode(), ids[6].decode()
    heard.streams(await client.xread({LOG: third}, count=2, block=None))
    heard.streams(await client.xread({LOG: last}, count=2, block=1))
    heard.entries(await client.xrange(LOG, third, fifth))
    heard.entries(await client.xrevrange(LOG, max=f"({fifth}", count=1))
    for count in (2, 3):
        heard.streams(await client.xreadgroup("g", "c", {LOG: ">"}, count=count, block=None))
    await client.xack(LOG, "g", ids[0], third)
    heard.facts(await client.xpending(LOG, "g"), "pending", "min")
    heard.entries((await client.xautoclaim(LOG, "g", "d", min_idle_time=0, count=9))[1])
    heard.facts((await client.xinfo_groups(LOG))[0], "name", "last-delivered-id")
    await client.xtrim(LOG, minid=fifth, approximate=False)
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
    assert len(real) == 18
