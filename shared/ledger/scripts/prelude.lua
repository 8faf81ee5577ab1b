-- What every script of the ledger has in common; this text stands before each of them.
--
-- Lua does not take back what it wrote: a script that fails after its first write has written by
-- half. So each script reads and judges on tables in memory, builds every argument of every write
-- and its own answer, and only then calls `flush` (plan.lua), the one place that writes. Nothing
-- that takes a list of values from a record is called with more than CHUNK of them.
local META, EPOCHS, LOG, BINDS, NODE, NODESPEC, QUEUE, QUEUESPEC, CLASS, JOB, JOBSPEC, TASK, NOM,
  DOMAIN, OBJECT, PARTITION, DOC, THING, WINDOW = unpack(KEYS)
local call, floor, rep = redis.call, math.floor, string.rep
local mpack, munpack = cmsgpack.pack, cmsgpack.unpack
local spack, sunpack = struct.pack, struct.unpack

local COMMITTED, RECHECKED, FIT, NOMINATION, QUEUE_FULL, RANK, JOB_MOVED, NODE_MOVED, TASK_TAKEN,
  GANG, DOMAIN_BROKEN = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local EPOCH, RUN, OLD = 12, 13, 14
local BINDING, BOUND, RUNNING, RELEASING_STATE, SUCCEEDED, FAILED, LOST = 1, 2, 3, 4, 5, 6, 7
local USED, OBSERVED, RELEASING, NOMINATED = 1, 2, 3, 4  -- offsets from a slot's allocatable
local LIMB = 1073741824
local LIMIT = 9007199254740992
-- Lua's stack takes 8,000 values in one call (LUAI_MAXCSTACK): unpack, struct and redis.call raise an
-- error beyond that, which a node of 1,600 slots would reach. 2,000 leaves room, and longer pieces
-- are not faster.
local CHUNK = 2000
local PODS = 2  -- the slot of places among a node's pods
local SEQUENCES = 64

local function reject(text)
  error('QUADRANT ' .. text, 0)
end

-- Seals: what was altered is not taken ---------------------------------------------------------

local altered, sealed, opened, pack_task, read_task, pack_records, pack_entry, reply
do  -- one function has no more than 200 local names: what nobody else needs stays in here
  local sha1hex, sub = redis.sha1hex, string.sub

  function altered(what)
    error('QUADRANT-ALTERED ' .. what, 0)
  end

  -- The last argument is the seal of the call.
  local said = table.concat(KEYS, '\n') .. '\n' .. table.concat(ARGV, '\n', 1, #ARGV - 1)
  if sha1hex(said) ~= ARGV[#ARGV] then altered('the call of a script') end

  -- A stored record ends with its seal: 8 hexadecimal digits.
  function sealed(record)
    return record .. sub(sha1hex(record), 1, 8)
  end

  function opened(record, what, id)
    local body = sub(record, 1, -9)
    if sub(record, -8) ~= sub(sha1hex(body), 1, 8) then altered(what .. ' ' .. id) end
    return body
  end

  -- That of a task is one number, which depends on whose record it is too: each of them is below
  -- 2^32, and the sum below 2^53.
  local function task_seal(jid, tix, state, row, cid, version, group)
    return (state * 65537 + row * 65539 + cid * 65543 + version * 65551 + group * 65557
      + jid * 65563 + tix * 65579) % 4294967291
  end

  local NEVER_EVICTED = 4294967295  -- how often what was never evicted was evicted

  -- What was evicted, now or before, or takes devices has more behind it: how often it was evicted,
  -- and has ended; for whom it has to leave now (-1: it does not) and why; behind a zero byte its
  -- devices, packed (things.lua); and a seal of all.
  function pack_task(jid, tix, state, row, cid, version, group, incarnation, by, why, devices)
    local record = spack('<BI4I4I4I2I4', state, row, cid, version, group,
      task_seal(jid, tix, state, row, cid, version, group))
    if not incarnation and not devices then return record end
    record = record .. spack('<I4i4', incarnation or NEVER_EVICTED, by or -1) .. (why or '')
    if devices then record = record .. '\0' .. devices end
    return record .. sub(sha1hex(jid .. '.' .. tix .. record), 1, 8)
  end

  -- {state, row, cid, version, group; incarnation, by, why of one that was evicted; devices where it has any}
  function read_task(record, jid, tix)
    local name = jid .. '.' .. tix
    if #record < 19 then altered('task ' .. name) end
    local rec = {sunpack('<BI4I4I4I2I4', record)}
    if rec[6] ~= task_seal(jid, tix, unpack(rec, 1, 5)) then altered('task ' .. name) end
    if #record == 19 then return rec end
    local body = sub(record, 1, -9)
    if sub(record, -8) ~= sub(sha1hex(name .. body), 1, 8) then altered('task ' .. name) end
    local incarnation, by = sunpack('<I4i4', record, 20)
    local zero = string.find(body, '%z', 28)
    if zero then rec.devices = sub(body, zero + 1) end
    if incarnation ~= NEVER_EVICTED then
      rec.incarnation, rec.by, rec.why = incarnation, by, sub(body, 28, zero and zero - 1)
    end
    return rec
  end

  -- Records are packed and sealed once, for the log and for the answer. `things`: a list of row,
  -- name, record, and so on, that stands behind them where there is one.
  function pack_records(records, things)
    local n = #records
    records[n + 1] = things
    local packed = mpack(records)
    records[n + 1] = nil
    return {packed, sha1hex(packed)}
  end

  -- The fields of an entry of a stream: what it tells, the records that go with it, the seals of
  -- both.
  function pack_entry(entry, records)
    local packed = mpack(entry)
    if not records then return {'p', packed, 's', sha1hex(packed)} end
    return {'p', packed, 'r', records[1], 's', sha1hex(packed) .. records[2]}
  end

  -- {packed answer, packed records, 1 where it was given before, id of the batch's entry in the log,
  -- the same id again, seals of the records and of the rest}. The id ('' where there is no entry) is
  -- known only after the writes, and no seal may be made then: standing twice takes its place.
  function reply(packed, records, replayed)
    return {packed, records[1], replayed, '', '', sha1hex(packed .. replayed) .. records[2]}
  end
end

-- Reading many fields of one hash ----------------------------------------------------------------

local function fetch(key, fields, n)
  if n == 0 then return {} end
  if n <= CHUNK then return call('HMGET', key, unpack(fields, 1, n)) end
  local all = {}
  for first = 1, n, CHUNK do
    local last = first + CHUNK - 1
    if last > n then last = n end
    local part = call('HMGET', key, unpack(fields, first, last))
    for i = 1, last - first + 1 do all[first + i - 1] = part[i] end
  end
  return all
end

-- Lists of numbers ---------------------------------------------------------------------------------

local unpack_doubles, pack_doubles
do
  local formats = {}
  local function doubles(count)
    local format = formats[count]
    if not format then
      format = '<' .. rep('d', count)
      formats[count] = format
    end
    return format
  end

  -- n numbers of a record, from its byte `at` on.
  function unpack_doubles(record, at, n)
    if n <= CHUNK then return {sunpack(doubles(n), record, at)} end
    local all = {}
    for first = 0, n - 1, CHUNK do
      local size = n - first
      if size > CHUNK then size = CHUNK end
      local part = {sunpack(doubles(size), record, at + 8 * first)}
      for i = 1, size do all[first + i] = part[i] end
    end
    return all
  end

  -- The first n numbers of a list as bytes.
  function pack_doubles(values, n)
    if n <= CHUNK then return spack(doubles(n), unpack(values, 1, n)) end
    local parts = {}
    for first = 1, n, CHUNK do
      local last = first + CHUNK - 1
      if last > n then last = n end
      parts[#parts + 1] = spack(doubles(last - first + 1), unpack(values, first, last))
    end
    return table.concat(parts)
  end
end

-- The seal is not looked at here: whoever blesses a run of the server has looked at all of them, and
-- in a run nobody but the scripts writes records.
local function read_doubles(record)
  return unpack_doubles(record, 1, #record / 8 - 1)
end

-- Who calls, and when ------------------------------------------------------------------------------

local writer, epoch, sequence = ARGV[1], ARGV[2], tonumber(ARGV[3])

-- Microseconds since 1970 by the server's clock; the same throughout one script.
local function server_time()
  local t = call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

-- (microseconds left, whole length) of a lease as it is stored; nil where there is none.
local function lease_left(stored)
  if not stored then return nil end
  local ends, length = string.match(stored, '^(%d+) (%d+)$')
  return tonumber(ends) - server_time(), tonumber(length)
end

-- Another after every start of the server.
local function run_id()
  return string.match(call('INFO', 'server'), 'run_id:(%x+)')
end
