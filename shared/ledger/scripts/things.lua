-- Named things of nodes: host ports, later devices. Only what an operation names is read.
--
-- A record stands under row/name: {version, dimensions, and of each dimension: allocatable, used,
-- observed, releasing, nominated}. The version is the node's when the thing moved last. What nobody
-- has, and no node declares, has no record: it is free, with what its class says that nodes offer.
--
-- Which device of its node a task takes is not its class's to say: the writer chose it. Devices are
-- packed as {{name, amounts}, ...} and travel so, from the statement into the task's record. Of them
-- a node has what it declares.

local named = {}  -- one table: a script has no more than 200 local names
do
  local HEAD, WIDTH = 2, 5
  local sub = string.sub
  local thing, before = {}, {}  -- field -> record as it is now; its amounts as they were, packed
  local fields, row_of, name_of, count = {}, {}, {}, 0
  local found = {}  -- row -> class -> the records of the things that the class takes there
  local kept, kept_count, gone, gone_count = {}, 0, {}, 0
  local chosen = {}  -- packed devices -> what takes them, in the form of a class

  -- The named things in the record of a class: {{name = , amounts = , offers = }, ...}.
  function named.parse(record, at, size)
    local things, name, dimensions = {}, nil, nil
    for i = 1, size do
      name, dimensions, at = sunpack('<sB', record, at)
      local values, amounts, offers = unpack_doubles(record, at, 2 * dimensions), {}, {}
      for d = 1, dimensions do amounts[d], offers[d] = values[d], values[dimensions + d] end
      things[i] = {name = name, amounts = amounts, offers = offers}
      at = at + 16 * dimensions
    end
    return things
  end

  -- Things are {name, vector, ...}: `vectors` of them, all as long.
  function named.check(what, things, vectors)
    local seen = {}
    for _, t in ipairs(things) do
      local name = type(t) == 'table' and t[1]
      if type(name) ~= 'string' or #name == 0 or #name > 128 or string.find(name, '%z') or seen[name] then
        reject(what .. ': a thing without a proper name, or named twice')
      end
      seen[name] = true
      for v = 2, 1 + vectors do
        local vector = t[v]
        if type(vector) ~= 'table' or #vector == 0 or #vector > 4 or #vector ~= #t[2] then
          reject(what .. ': ' .. name .. ' wants 1 to 4 amounts')
        end
        for _, amount in ipairs(vector) do
          if amount < 0 or amount >= LIMIT or amount ~= floor(amount) then
            reject(what .. ': an amount of ' .. name .. ' is not a whole number below 2^53')
          end
        end
      end
    end
  end

  -- What takes these devices, as a class takes its things.
  function named.devices(packed)
    local taking = chosen[packed]
    if taking then return taking end
    local things = {}
    for i, t in ipairs(munpack(packed)) do
      local offers = {}
      for d = 1, #t[2] do offers[d] = 0 end
      things[i] = {name = t[1], amounts = t[2], offers = offers}
    end
    taking = {things = things}
    chosen[packed] = taking
    return taking
  end

  local function pack_body(rec)
    return pack_doubles(rec, HEAD + WIDTH * rec[2])
  end

  local function take_up(field, row, name, record)
    local rec = {0, 0}
    if record then
      rec = read_doubles(record)
      before[field] = sub(record, 8 * HEAD + 1, -9)
    end
    count = count + 1
    fields[count], row_of[count], name_of[count] = field, row, name
    thing[field] = rec
    return rec
  end

  local function thing_of(row, name)
    local field = row .. '/' .. name
    return thing[field] or take_up(field, row, name, call('HGET', THING, field))
  end

  -- The records of the things that a class takes of a row, read when they are asked for first: in
  -- one call, as a class may take many.
  local function things_of(row, cls)
    local here = found[row]
    if not here then
      here = {}
      found[row] = here
    end
    local recs = here[cls]
    if recs then return recs end
    local wanted, n = {}, #cls.things
    for i = 1, n do wanted[i] = row .. '/' .. cls.things[i].name end
    local records = fetch(THING, wanted, n)
    recs = {}
    for i = 1, n do
      local field = wanted[i]
      recs[i] = thing[field] or take_up(field, row, cls.things[i].name, records[i])
    end
    here[cls] = recs
    return recs
  end

  local function grow_thing(rec, dimensions)
    for i = HEAD + WIDTH * rec[2] + 1, HEAD + WIDTH * dimensions do rec[i] = 0 end
    if rec[2] < dimensions then rec[2] = dimensions end
    return rec
  end

  -- As add_to_node, for what a class takes of named things.
  function named.add(row, cls, part, sign)
    local things, recs = cls.things, things_of(row, cls)
    for i = 1, #things do
      local amounts, rec = things[i].amounts, recs[i]
      if rec[2] < #amounts then grow_thing(rec, #amounts) end
      local b = HEAD + 1 + part
      for d = 1, #amounts do
        rec[b] = rec[b] + sign * amounts[d]
        b = b + WIDTH
      end
    end
  end

  -- As misfit, for them. `now`: they are to be used, not only promised.
  function named.misfit(row, cls, now)
    local verdict = COMMITTED
    local things, recs = cls.things, things_of(row, cls)
    for i = 1, #things do
      local t, rec = things[i], recs[i]
      for d, amount in ipairs(t.amounts) do
        local b, capacity = HEAD + 1 + WIDTH * (d - 1), t.offers[d]
        local idle, future = amount, amount
        if d <= rec[2] then
          if rec[b] > capacity then capacity = rec[b] end
          idle = amount + rec[b + USED] + rec[b + OBSERVED]
          future = idle - rec[b + RELEASING] + rec[b + NOMINATED]
        end
        if now and idle > capacity then return FIT end
        if future > capacity then verdict = NOMINATION end
      end
    end
    return verdict
  end

  -- One part of a thing in all its dimensions: what the node declares (0), what others have (OBSERVED).
  function named.set(row, name, part, amounts)
    local rec = grow_thing(thing_of(row, name), #amounts)
    for d = 1, rec[2] do rec[HEAD + 1 + WIDTH * (d - 1) + part] = amounts[d] or 0 end
  end

  local function is_idle(rec)
    for i = HEAD + 1, HEAD + WIDTH * rec[2] do
      if rec[i] ~= 0 then return false end
    end
    return true
  end

  -- What moved, for the log: row, name, record, and so on; nil where nothing did. `version_of` gives
  -- the version of a row's node now. One that is idle now is told with its last record.
  function named.moved(version_of)
    local told, n = nil, 0
    for i = 1, count do
      local field = fields[i]
      local rec = thing[field]
      local idle, known, version = is_idle(rec), before[field], rec[1]
      if known or not idle then
        rec[1] = version_of(row_of[i])
        local body = pack_body(rec)
        if sub(body, 8 * HEAD + 1) == known then
          rec[1] = version
        else
          local packed = sealed(body)
          told = told or {}
          told[n + 1], told[n + 2], told[n + 3] = row_of[i], name_of[i], packed
          n = n + 3
          if idle then
            gone_count = gone_count + 1
            gone[gone_count] = field
          else
            kept[kept_count + 1], kept[kept_count + 2] = field, packed
            kept_count = kept_count + 2
          end
        end
      end
    end
    return told
  end

  -- Those that a refused writer asks about, {row, thing of a class}, as they stand, behind those that
  -- moved.
  function named.shown(told, asked, version_of)
    local seen, shown, n = {}, {}, 0
    for i = 1, told and #told or 0, 3 do
      seen[told[i] .. '/' .. told[i + 1]] = true
      shown[i], shown[i + 1], shown[i + 2] = told[i], told[i + 1], told[i + 2]
      n = i + 2
    end
    for _, ask in ipairs(asked) do
      local row, t = ask[1], ask[2]
      local field = row .. '/' .. t.name
      if not seen[field] then
        seen[field] = true
        local rec = thing_of(row, t.name)
        if not before[field] then rec = grow_thing({version_of(row), 0}, #t.amounts) end
        shown[n + 1], shown[n + 2], shown[n + 3] = row, t.name, sealed(pack_body(rec))
        n = n + 3
      end
    end
    return n > 0 and shown or nil
  end

  function named.plan()
    plan_chunks('HSET', THING, kept, kept_count)
    plan_chunks('HDEL', THING, gone, gone_count)
  end
end
