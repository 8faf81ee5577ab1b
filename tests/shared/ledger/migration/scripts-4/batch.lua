-- First part of the commit script: unpack a batch of statements and read all it refers to.
-- ARGV = writer, epoch, sequence, run id, packed columns, now ('' = the server's time).
--
-- The columns of a batch (little-endian integers of 4 bytes, see codec.py):
--   heads  jid, job version, qid, priority, core runs, tail runs    per statement
--   runs   kind, cid, group, operations                             per run
--   tasks, rows, versions, specs, levels                            per operation
--   extras {index, displaced, domains, expiry}                      per statement that has any
--          and victims, guards, reason                              where it evicts
-- Statements, runs and operations are numbered from 1 through the whole batch.
local ALLOCATE = 0

local early = gate()
if early then return early end

local heads, runs, tasks, rows, versions, specs, levels, extras
local statement_count, run_count, operation_count = 0, 0, 0
local first_run, first_op = {}, {}  -- of each statement; of each run
local names, taken = {}, {}  -- field of each operation's task; fields that are not pending
local domain_names, domain_count, domain, domain_dirty = {}, 0, {}, {}
local NONE = {}

-- Load -----------------------------------------------------------------------------------------

local function column(bytes, unit, width)
  local n = #bytes / (4 * width)
  local step = floor(CHUNK / width)
  if n <= step then return {sunpack('<' .. rep(unit, n), bytes)}, n end
  local all, size = {}, 0
  local position = 1
  while n > 0 do
    local part = n < step and n or step
    local values = {sunpack('<' .. rep(unit, part), bytes, position)}
    for i = 1, part * width do all[size + i] = values[i] end
    position = values[part * width + 1]
    size = size + part * width
    n = n - part
  end
  return all, size / width
end

local function read_batch()
  local batch = munpack(ARGV[5])
  heads, statement_count = column(batch[1], 'IIiiII', 6)
  runs, run_count = column(batch[2], 'IIII', 4)
  tasks, operation_count = column(batch[3], 'I', 1)
  for k = 4, 7 do
    if #batch[k] ~= #batch[3] then
      reject('tasks, rows, versions, specs and levels of the statements differ in length')
    end
  end
  rows, versions, specs, levels = column(batch[4], 'I', 1), column(batch[5], 'I', 1),
    column(batch[6], 'I', 1), column(batch[7], 'I', 1)
  extras = {}
  for _, extra in ipairs(batch[8]) do extras[extra[1]] = extra end
end

-- Number the runs and operations of every statement, and note what must be read.
local function collect()
  local run, op = 1, 1
  for index = 1, statement_count do
    local h = 6 * index - 6
    local prefix = heads[h + 1] .. '.'
    first_run[index] = run
    local last = run + heads[h + 5] + heads[h + 6] - 1
    for k = run, last do
      local r = 4 * k - 4
      local cid = runs[r + 2]
      if not wanted_class[cid] then want_class(cid) end
      first_op[k] = op
      for o = op, op + runs[r + 4] - 1 do
        local row = rows[o]
        if not wanted_row[row] then want_row(row) end
        names[o] = prefix .. tasks[o]
      end
      op = op + runs[r + 4]
    end
    run = last + 1
  end
  first_run[statement_count + 1], first_op[run] = run, op
  if run ~= run_count + 1 or op ~= operation_count + 1 then
    reject('runs or operations of the statements are missing')
  end
end

local function load_holders()
  if call('HLEN', NOM) == 0 then return end
  local holders, n, seen = {}, 0, {}
  local function want(jid)
    if not seen[jid] then
      seen[jid] = true
      n = n + 1
      holders[n] = jid
    end
  end
  for index = 1, statement_count do
    want(heads[6 * index - 5])
    for _, other in ipairs(extras[index] and extras[index][2] or NONE) do want(other) end
  end
  load_nominations(holders, n)
end

-- Victims ----------------------------------------------------------------------------------------

local victim = {}  -- field -> record
local want_victims, load_victims
do
  local fields, of = {}, {}  -- fields of victims, and {jid, tix} of each

  -- A run of victims is {jid, job version, cid, group, tasks, rows}. Adds their jobs to a list of
  -- jobs (one of each statement), and returns its length.
  function want_victims(jids)
    local n = statement_count
    for index = 1, statement_count do
      for _, run in ipairs(extras[index] and extras[index][5] or NONE) do
        n = n + 1
        jids[n] = run[1]
        want_class(run[3])
        if #run[5] ~= #run[6] then
          reject('job ' .. run[1] .. ': its victims and their rows differ in length')
        end
        for i, tix in ipairs(run[5]) do
          want_row(run[6][i])
          fields[#fields + 1] = run[1] .. '.' .. tix
          of[#fields] = {run[1], tix}
        end
      end
    end
    return n
  end

  function load_victims()
    local values = fetch(TASK, fields, #fields)
    for i, name in ipairs(fields) do
      if values[i] then victim[name] = read_task(values[i], unpack(of[i])) end
    end
  end
end

local function load_owners()
  local jids, qids, n = {}, {}, 0
  for index = 1, statement_count do jids[index] = heads[6 * index - 5] end
  local count = want_victims(jids)
  load_jobs(jids, count)
  local seen = {}
  for index = 1, count do
    local rec = job[jids[index]]
    if rec and not seen[rec[2]] then
      seen[rec[2]] = true
      n = n + 1
      qids[n] = rec[2]
    end
  end
  load_queues(qids, n)
end

local reborn  -- field -> record of tasks that were evicted before, and are pending
local load_tasks
do
  -- What was never evicted has a short record, and is not pending.
  local function is_reborn(name, record)
    if #record == 19 then return false end
    local rec = read_task(record, string.match(name, '^(%d+)%.(%d+)$'))
    if rec[1] ~= 0 then return false end
    reborn = reborn or {}
    reborn[name] = rec
    return true
  end

  function load_tasks()
    local values = fetch(TASK, names, operation_count)
    for o = 1, operation_count do
      local record = values[o]
      if record and not is_reborn(names[o], record) then taken[names[o]] = true end
    end
  end
end

local conditions = {[''] = true, eq0 = true, ge1 = true, le = true}

local function load_domains()
  for _, extra in pairs(extras) do
    for _, d in ipairs(extra[3]) do
      if not conditions[d[3]] then
        reject('domain ' .. d[1] .. ': condition ' .. d[3] .. ' is not known')
      end
      domain_count = domain_count + 1
      domain_names[domain_count] = d[1]
    end
  end
  local values = fetch(DOMAIN, domain_names, domain_count)
  for i = 1, domain_count do
    local name, value = domain_names[i], values[i]
    domain[name] = value and sunpack('<d', opened(value, 'domain', name)) or 0
  end
end
