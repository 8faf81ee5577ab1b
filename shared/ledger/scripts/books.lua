-- What the scripts that judge batches have in common: the ledger's books, as the batch sees them.

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

local load_classes
do
  -- Request arrays of a class: position in node and queue records, amount, its two limbs.
  local function parse_class(record)
    local count, names = sunpack('<I2I2', record)
    local flat = unpack_doubles(record, 5, 3 * count)
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
    if names > 0 then
      cls.things = named.parse(record, 5 + 24 * count, names)
      cls.best_effort = false
    end
    return cls
  end

  function load_classes()
    local values = fetch(CLASS, class_ids, class_count)
    for i = 1, class_count do
      if values[i] then class[class_ids[i]] = parse_class(opened(values[i], 'class', class_ids[i])) end
    end
  end
end

local function load_jobs(jids, n)
  local values = fetch(JOB, jids, n)
  for i = 1, n do
    if values[i] then job[jids[i]] = read_doubles(values[i]) end
  end
end

-- A nomination is {priority, since, expiry, {{cid, group, tasks, rows, levels, devices}, ...}}; most
-- runs have no devices.
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

-- Add `sign` requests of a class, and of devices (packed) where there are any, to one part (USED,
-- RELEASING, NOMINATED) of a node.
local function add_to_node(row, cls, part, sign, devices)
  local rec = node[row]
  if cls.slots > rec[3] then grow(rec, cls.slots) end
  local base, amount, offers = cls.base, cls.amount, cls.implied
  for k = 1, cls.n do
    local b = base[k]
    rec[b + part] = rec[b + part] + sign * amount[k]
    if sign > 0 and rec[b] < offers[k] and part ~= RELEASING then rec[b] = offers[k] end
  end
  if cls.things then named.add(row, cls, part, sign) end
  if devices then named.add(row, named.devices(devices), part, sign) end
end

local function version_of(row)
  return node[row][1]
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
      add_to_node(rows[i], cls, NOMINATED, sign, run[6])
      mark(rows[i], node[rows[i]])
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

-- Whether a group has too few members, or too few groups below it that have their minima.
local lacks
do
  -- The minimum of a group has that of the groups directly below it in its upper half: so many of
  -- them must have their own (gang_minimum.py).
  local CHILDREN = 4294967296

  function lacks(rec, group)
    local minimum, held = rec[6 + 3 * group], rec[7 + 3 * group]
    if minimum < CHILDREN then return held < minimum end
    local needed = floor(minimum / CHILDREN)
    if held < minimum - needed * CHILDREN then return true end
    for below = group + 1, rec[4] - 1 do
      if rec[5 + 3 * below] == group and not lacks(rec, below) then needed = needed - 1 end
    end
    return needed > 0
  end
end

local function add_to_groups(rec, group, n)
  while group >= 0 do
    local b = 5 + 3 * group
    rec[b + 2] = rec[b + 2] + n
    group = rec[b]
  end
end

-- Records of what moved, ready to be written ---------------------------------------------------------

local function pack_node(rec)
  return sealed(pack_doubles(rec, 3 + 5 * rec[3]))
end

-- Every moved row, and its packed record.
local function moved_nodes()
  local rows, records, n = {}, {}, 0
  for i = 1, node_count do
    local row = node_rows[i]
    local rec = node[row]
    if rec and rec[1] ~= node_version[i] then
      n = n + 1
      rows[n], records[n] = row, pack_node(rec)
    end
  end
  return rows, records
end

local function plan_nodes(rows, records)
  local args = {}
  for i = 1, #rows do args[2 * i - 1], args[2 * i] = rows[i], records[i] end
  plan_chunks('HSET', NODE, args, 2 * #rows)
end

local function plan_records(key, table_, dirty, width_of)
  local args, n = {}, 0
  for id in pairs(dirty) do
    local rec = table_[id]
    args[n + 1], args[n + 2] = id, sealed(pack_doubles(rec, width_of(rec)))
    n = n + 2
  end
  plan_chunks('HSET', key, args, n)
end

local function plan_queues()
  plan_records(QUEUE, queue, queue_dirty, function(rec) return 2 + QUEUE_WIDTH * rec[2] end)
end

local function plan_jobs(dirty)
  plan_records(JOB, job, dirty, function(rec) return 5 + 3 * rec[4] end)
end

local function plan_nominations(dirty)
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
  plan_chunks('HSET', NOM, args, n)
  plan_chunks('HDEL', NOM, gone, m)
end
