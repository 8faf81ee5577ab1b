-- What every script of the ledger has in common; this text stands before each of them.
-- Rule for all: read and judge on tables in memory first, write only when nothing can fail any more.
local META, EPOCHS, LOG, BINDS, NODE, NODESPEC, QUEUE, QUEUESPEC, CLASS, JOB, JOBSPEC, TASK, NOM,
  DOMAIN, OBJECT, PARTITION, DOC, WINDOW = unpack(KEYS)
local call, floor, rep = redis.call, math.floor, string.rep
local mpack, munpack = cmsgpack.pack, cmsgpack.unpack
local spack, sunpack = struct.pack, struct.unpack

local COMMITTED, RECHECKED, FIT, NOMINATION, QUEUE_FULL, RANK, JOB_MOVED, NODE_MOVED, TASK_TAKEN,
  GANG, DOMAIN_BROKEN = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local EPOCH, RUN, OLD = 12, 13, 14
local BINDING, BOUND, RUNNING, RELEASING_STATE, SUCCEEDED, FAILED = 1, 2, 3, 4, 5, 6
local USED, OBSERVED, RELEASING, NOMINATED = 1, 2, 3, 4  -- offsets from a slot's allocatable
local LIMB = 1073741824
local LIMIT = 9007199254740992
local CHUNK = 2000
local PODS = 2  -- the slot of places among a node's pods
local SEQUENCES = 64

local function reject(text)
  error('QUADRANT ' .. text, 0)
end

-- Seals: what was altered is not taken ---------------------------------------------------------

local sealed, opened, pack_task, read_task, pack_records, tell, reply
do  -- one function has no more than 200 local names: what nobody else needs stays in here
  local sha1hex, sub = redis.sha1hex, string.sub

  local function altered(what)
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

  -- What was evicted, now or before, has more behind it: how often it was, and has ended; for whom it
  -- has to leave now (-1: it does not) and why; and a seal of all.
  function pack_task(jid, tix, state, row, cid, version, group, life, by, why)
    local record = spack('<BI4I4I4I2I4', state, row, cid, version, group,
      task_seal(jid, tix, state, row, cid, version, group))
    if not life then return record end
    record = record .. spack('<I4i4', life, by) .. why
    return record .. sub(sha1hex(jid .. '.' .. tix .. record), 1, 8)
  end

  -- {state, row, cid, version, group; life, by, why of one that was evicted}
  function read_task(record, jid, tix)
    local name = jid .. '.' .. tix
    if #record < 19 then altered('task ' .. name) end
    local rec = {sunpack('<BI4I4I4I2I4', record)}
    if rec[6] ~= task_seal(jid, tix, unpack(rec, 1, 5)) then altered('task ' .. name) end
    if #record == 19 then return rec end
    local body = sub(record, 1, -9)
    if sub(record, -8) ~= sub(sha1hex(name .. body), 1, 8) then altered('task ' .. name) end
    rec.life, rec.by = sunpack('<I4i4', record, 20)
    rec.why = sub(body, 28)
    return rec
  end

  -- Records are packed and sealed once, for the log and for the answer.
  function pack_records(records)
    local packed = mpack(records)
    return {packed, sha1hex(packed)}
  end

  -- An entry of a stream: what it tells, the records that go with it, the seals of both.
  function tell(stream, entry, records)
    local packed = mpack(entry)
    if not records then return call('XADD', stream, '*', 'p', packed, 's', sha1hex(packed)) end
    return call('XADD', stream, '*', 'p', packed, 'r', records[1], 's', sha1hex(packed) .. records[2])
  end

  -- {packed answer, packed records, 1 where it was given before, id of the batch's entry in the log
  -- ('' where it has none), seals of the records and of the rest}
  function reply(packed, records, replayed, logged)
    local seal = sha1hex(packed .. replayed .. logged) .. records[2]
    return {packed, records[1], replayed, logged, seal}
  end
end

-- Reading and writing many fields of one hash -------------------------------------------------

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

local function each_chunk(command, key, args, n)
  for first = 1, n, CHUNK do
    local last = first + CHUNK - 1
    if last > n then last = n end
    call(command, key, unpack(args, first, last))
  end
end

local formats = {}
local function doubles(count)
  local format = formats[count]
  if not format then
    format = '<' .. rep('d', count)
    formats[count] = format
  end
  return format
end

-- The seal is not looked at here: whoever blesses a run of the server has looked at all of them, and
-- in a run nobody but the scripts writes records.
local function read_doubles(record)
  return {sunpack(doubles(#record / 8 - 1), record)}
end

-- The overlay: what the batch has read, changed in place -------------------------------------

local node, node_version, node_rows, node_count = {}, {}, {}, 0
local queue, job, class, nomination = {}, {}, {}, {}
local implied  -- slot -> capacity that every node has without saying so
local implied_packed

local function implied_of(slot)
  if not implied then
    implied = {}
    local pairs_ = implied_packed and munpack(opened(implied_packed, 'implied', 'capacities')) or {}
    for i = 1, #pairs_, 2 do implied[pairs_[i]] = pairs_[i + 1] end
  end
  return implied[slot] or 0
end

local wanted_row = {}
local function want_row(row)
  if not wanted_row[row] then
    wanted_row[row] = true
    node_count = node_count + 1
    node_rows[node_count] = row
  end
end

local function load_nodes()
  local values = fetch(NODE, node_rows, node_count)
  for i = 1, node_count do
    local record = values[i]
    if record then
      local rec = read_doubles(record)
      node[node_rows[i]] = rec
      node_version[i] = rec[1]
    end
  end
end

local class_ids, class_count, wanted_class = {}, 0, {}
local function want_class(cid)
  if not wanted_class[cid] then
    wanted_class[cid] = true
    class_count = class_count + 1
    class_ids[class_count] = cid
  end
end

-- Request arrays of a class: position in node and queue records, amount, its two limbs.
local function parse_class(record)
  local count = sunpack('<I4', record)
  local flat = {sunpack(doubles(3 * count), record, 5)}
  local cls = {n = 0, slots = 0, base = {}, qbase = {}, amount = {}, high = {}, low = {}, implied = {}}
  -- It asks for nothing but its place among a node's pods: its members count for their groups from
  -- the time they are stored (put_job), placed or not.
  cls.best_effort = true
  local n = 0
  for i = 1, 3 * count, 3 do
    local slot, amount = flat[i], flat[i + 1]
    if slot ~= PODS then cls.best_effort = false end
    if amount > 0 then
      n = n + 1
      cls.base[n] = 4 + 5 * slot
      cls.qbase[n] = 3 + 8 * slot
      cls.amount[n] = amount
      cls.high[n] = floor(amount / LIMB)
      cls.low[n] = amount % LIMB
      cls.implied[n] = flat[i + 2]
      if slot >= cls.slots then cls.slots = slot + 1 end
    end
  end
  cls.n = n
  return cls
end

local function load_classes()
  local values = fetch(CLASS, class_ids, class_count)
  for i = 1, class_count do
    if values[i] then class[class_ids[i]] = parse_class(opened(values[i], 'class', class_ids[i])) end
  end
end

local function load_jobs(jids, n)
  local values = fetch(JOB, jids, n)
  for i = 1, n do
    if values[i] then job[jids[i]] = read_doubles(values[i]) end
  end
end

-- A nomination is {priority, since, expiry, {{cid, group, tasks, rows, levels}, ...}}.
local function load_nominations(jids, n)
  local values = fetch(NOM, jids, n)
  for i = 1, n do
    if values[i] then
      local held = munpack(opened(values[i], 'nominations of job', jids[i]))
      nomination[jids[i]] = held
      for _, run in ipairs(held[4]) do
        want_class(run[1])
        for _, row in ipairs(run[4]) do want_row(row) end
      end
    end
  end
end

-- Queues and all their ancestors, one level per call.
local function load_queues(ids, n)
  local seen = {}
  while n > 0 do
    local fresh, m = {}, 0
    for i = 1, n do
      local qid = ids[i]
      if qid >= 0 and not seen[qid] then
        seen[qid] = true
        m = m + 1
        fresh[m] = qid
      end
    end
    local values = fetch(QUEUE, fresh, m)
    ids, n = {}, 0
    for i = 1, m do
      if values[i] then
        local rec = read_doubles(values[i])
        queue[fresh[i]] = rec
        n = n + 1
        ids[n] = rec[1]
      end
    end
  end
end

-- Arithmetic of nodes ------------------------------------------------------------------------

local function grow(rec, nslots)
  for slot = rec[3], nslots - 1 do
    local b = 4 + 5 * slot
    rec[b], rec[b + 1], rec[b + 2], rec[b + 3], rec[b + 4] = implied_of(slot), 0, 0, 0, 0
  end
  rec[3] = nslots
end

-- Add `sign` requests of a class to one part (USED, RELEASING, NOMINATED) of a node.
local function add_to_node(rec, cls, part, sign)
  if cls.slots > rec[3] then grow(rec, cls.slots) end
  local base, amount, offers = cls.base, cls.amount, cls.implied
  for k = 1, cls.n do
    local b = base[k]
    rec[b + part] = rec[b + part] + sign * amount[k]
    if sign > 0 and rec[b] < offers[k] and part ~= RELEASING then rec[b] = offers[k] end
  end
end

local stamp, turn = {}, 0
local function touch(row, rec)
  if stamp[row] ~= turn then
    stamp[row] = turn
    rec[1] = rec[1] + 1
  end
end

local function untouch(row, rec)
  if stamp[row] == turn then
    stamp[row] = nil
    rec[1] = rec[1] - 1
  end
end

local function shift_nomination(held, sign, mark)
  for _, run in ipairs(held[4]) do
    local cls, rows = class[run[1]], run[4]
    for i = 1, #rows do
      local rec = node[rows[i]]
      add_to_node(rec, cls, NOMINATED, sign)
      mark(rows[i], rec)
    end
  end
end

-- Arithmetic of queues and groups ------------------------------------------------------------

-- Of each slot of a queue: used, the limit, guaranteed, leaving; two limbs of each.
local QUEUE_WIDTH, GUARANTEED, LEAVING = 8, 4, 6

local function grow_queue(rec, nslots)
  for slot = rec[2], nslots - 1 do
    local b = 3 + QUEUE_WIDTH * slot
    rec[b], rec[b + 1], rec[b + 2], rec[b + 3] = 0, 0, -1, 0
    rec[b + 4], rec[b + 5], rec[b + 6], rec[b + 7] = 0, 0, 0, 0
  end
  rec[2] = nslots
end

local queue_dirty = {}

-- Add n requests of a class to a queue and its ancestors. Returns the first queue over its limit.
local function charge(qid, cls, n)
  local over
  local qbase, high, low = cls.qbase, cls.high, cls.low
  while qid >= 0 do
    local rec = queue[qid]
    if not rec then return over or qid end
    if cls.slots > rec[2] then grow_queue(rec, cls.slots) end
    for k = 1, cls.n do
      local b = qbase[k]
      local lo = rec[b + 1] + n * low[k]
      local carry = floor(lo / LIMB)
      lo = lo - carry * LIMB
      local hi = rec[b] + n * high[k] + carry
      rec[b], rec[b + 1] = hi, lo
      local limit = rec[b + 2]
      if limit >= 0 and (hi > limit or (hi == limit and lo > rec[b + 3])) then over = over or qid end
    end
    qid = rec[1]
  end
  return over
end

-- n requests of a class that a queue and its ancestors use begin to leave, or (n < 0) have left.
local function leave(qid, cls, n)
  while qid >= 0 and queue[qid] do
    local rec = queue[qid]
    if cls.slots > rec[2] then grow_queue(rec, cls.slots) end
    for k = 1, cls.n do
      local b = cls.qbase[k] + LEAVING
      local lo = rec[b + 1] + n * cls.low[k]
      local carry = floor(lo / LIMB)
      rec[b], rec[b + 1] = rec[b] + n * cls.high[k] + carry, lo - carry * LIMB
    end
    qid = rec[1]
  end
end

local function mark_queue(qid)
  while qid >= 0 and queue[qid] and not queue_dirty[qid] do
    queue_dirty[qid] = true
    qid = queue[qid][1]
  end
end

local function add_to_groups(rec, group, n)
  while group >= 0 do
    local b = 5 + 3 * group
    rec[b + 2] = rec[b + 2] + n
    group = rec[b]
  end
end

-- Writes ---------------------------------------------------------------------------------------

local function pack_node(rec)
  local width = 3 + 5 * rec[3]
  return sealed(spack(doubles(width), unpack(rec, 1, width)))
end

-- Writes every moved row; returns the rows and their packed records.
local function write_nodes()
  local rows, records, args, n = {}, {}, {}, 0
  for i = 1, node_count do
    local row = node_rows[i]
    local rec = node[row]
    if rec and rec[1] ~= node_version[i] then
      local packed = pack_node(rec)
      n = n + 1
      rows[n], records[n] = row, packed
      args[2 * n - 1], args[2 * n] = row, packed
    end
  end
  each_chunk('HSET', NODE, args, 2 * n)
  return rows, records
end

local function write_records(key, table_, dirty, width_of)
  local args, n = {}, 0
  for id in pairs(dirty) do
    local rec = table_[id]
    local width = width_of(rec)
    args[n + 1], args[n + 2] = id, sealed(spack(doubles(width), unpack(rec, 1, width)))
    n = n + 2
  end
  each_chunk('HSET', key, args, n)
end

local function write_queues()
  write_records(QUEUE, queue, queue_dirty, function(rec) return 2 + QUEUE_WIDTH * rec[2] end)
end

local function write_jobs(dirty)
  write_records(JOB, job, dirty, function(rec) return 5 + 3 * rec[4] end)
end

local function write_nominations(dirty)
  local args, n, gone, m = {}, 0, {}, 0
  for jid in pairs(dirty) do
    if nomination[jid] then
      args[n + 1], args[n + 2] = jid, sealed(mpack(nomination[jid]))
      n = n + 2
    else
      m = m + 1
      gone[m] = jid
    end
  end
  each_chunk('HSET', NOM, args, n)
  each_chunk('HDEL', NOM, gone, m)
end

-- The writer's right to speak, and its window of answers -------------------------------------

local writer, epoch, sequence = ARGV[1], ARGV[2], tonumber(ARGV[3])
local window_top

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

-- Records of rows as they stand now, for an answer that is given again.
local function current_records(rows)
  return pack_records(fetch(NODE, rows, #rows))
end

local function refusal(verdict)
  return reply(mpack({verdict}), pack_records({}), 0, '')
end

-- nil where the batch may be judged, else the reply to give at once.
local function gate()
  local meta = call('HMGET', META, 'run', 'implied')
  local run = run_id()
  if meta[1] ~= run or ARGV[4] ~= run then return refusal(RUN) end
  local owner = call('HMGET', EPOCHS, writer, writer .. '/lease')
  if owner[1] ~= epoch then return refusal(EPOCH) end
  if owner[2] and lease_left(owner[2]) <= 0 then return refusal(EPOCH) end
  local window = call('HMGET', WINDOW, 'top', sequence)
  if window[2] then
    local packed = opened(window[2], 'answer', sequence)
    local answer = munpack(packed)
    return reply(packed, current_records(answer[#answer]), 1, '')
  end
  window_top = window[1] and tonumber(window[1])
  if window_top and sequence <= window_top - SEQUENCES then return refusal(OLD) end
  implied_packed = meta[2]
  return nil
end

-- Remember the answer (rows last) and give it with the packed records of the rows.
local function answer(head, records, logged)
  local packed = mpack(head)
  local top = window_top or sequence
  if sequence > top then
    local stale, n = {}, 0
    local first = top - SEQUENCES + 1
    local last = sequence - SEQUENCES
    if last - first > SEQUENCES then last = first + SEQUENCES end
    for old = first, last do
      n = n + 1
      stale[n] = old
    end
    each_chunk('HDEL', WINDOW, stale, n)
    top = sequence
  end
  call('HSET', WINDOW, 'top', top, sequence, sealed(packed))
  return reply(packed, records, 0, logged or '')
end
