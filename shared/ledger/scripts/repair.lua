-- The repair of totals that are not what the task records come to (decision 0039).
-- ARGV = writer, epoch, sequence, run id, packed {nodes, queues, jobs, nominations, domains, tasks}.
-- Each is a list of {number or name, the end of its record as it was seen}; tasks are {jid, tix,
-- record}. What the caller summed up is not among the arguments: everything is summed up here, from
-- all task records, while nothing else can happen.
local early = gate()
if early then return early end

local REPAIRED, SOUND, STALE, UNKNOWN, DEFERRED = 0, 1, 2, 3, 4
local OPEN_ENTRIES = 512  -- as in repair.py
-- Takes the place of a negative counter of a cross-node rule: greater than any that a worker can have
-- read. These counters are versions, checked with `le`: a statement that relies on an old one is
-- refused, and its worker reads the counter again.
local UNSEEN_VERSION = 1099511627776

local asked_nodes, asked_queues, asked_jobs, asked_nominations, asked_domains, asked_tasks =
  unpack(munpack(ARGV[5]))
local results = {{}, {}, {}, {}, {}, {}}
local nomination_dirty, job_dirty, ended = {}, {}, {}

-- What was looked at is what stands there: of sealed records their seals tell.
local function is_as_seen(record, evidence)
  return record and string.sub(record, -#evidence) == evidence
end

-- Tasks ------------------------------------------------------------------------------------------

local removed, recomputed = {}, {}  -- fields of tasks that go; rows whose sums move with them
local task_args, task_gone = {}, {}
local binds, incarnations, assigned = {}, {}, {}
do
  local open  -- payloads of the open bind entries, false where they are too many

  local function load_open()
    local entries, goes_on = open_binds('0', OPEN_ENTRIES)
    if goes_on ~= '' then
      open = false
      return
    end
    open = {}
    for i, entry in ipairs(entries) do
      local fields = {}
      for k = 1, #entry[2], 2 do fields[entry[2][k]] = entry[2][k + 1] end
      open[i] = fields.p
    end
  end

  -- Whether an entry has this task bound to this row. Almost none has the job's number anywhere in
  -- its bytes, so that almost none is unpacked.
  local function names_task(payload, jid, tix, row)
    if not string.find(payload, mpack(jid), 1, true) then return false end
    local flat, at = munpack(payload)[1], 1
    while at <= #flat do
      local n = flat[at + 2]
      if flat[at] == jid then
        for i = at + 3, at + 2 + n do
          if flat[i] == tix and flat[i + n] == row then return true end
        end
      end
      at = at + 3 + 2 * n
    end
    return false
  end

  -- The entry that this task's allocation made is acknowledged, and its record is what it was then:
  -- whoever drove it is done, and nobody will drive it again. One new entry takes the place of the
  -- old one. It is exactly what a commit would write, so that redelivery, takeover and evictions
  -- meet nothing that they do not know; where the cluster has the task already it says so.
  local function bind_again(jid, tix, rec)
    if open == nil then load_open() end
    if not open then return DEFERRED end
    for _, payload in ipairs(open) do
      if names_task(payload, jid, tix, rec[2]) then return SOUND end
    end
    local n = #binds
    binds[n + 1], binds[n + 2], binds[n + 3], binds[n + 4], binds[n + 5] = jid, rec[3], 1, tix, rec[2]
    if rec.incarnation and rec.incarnation > 0 then
      local m = #incarnations
      incarnations[m + 1], incarnations[m + 2], incarnations[m + 3] = jid, tix, rec.incarnation
    end
    if rec.devices then
      local m = #assigned
      assigned[m + 1], assigned[m + 2], assigned[m + 3] = jid, tix, rec.devices
    end
    task_args[#task_args + 1] = jid .. '.' .. tix
    task_args[#task_args + 1] =
      pack_task(jid, tix, rec[1], rec[2], rec[3], rec[4] + 1, rec[5], rec.incarnation, rec.by, rec.why,
        rec.devices)
    return REPAIRED
  end

  local function judge_task(item, record)
    local jid, tix = item[1], item[2]
    if record ~= item[3] then return STALE end
    local rec = read_task(record, jid, tix)
    if not job[jid] then
      removed[jid .. '.' .. tix] = true
      task_gone[#task_gone + 1] = jid .. '.' .. tix
      if rec[1] >= BINDING and rec[1] <= RELEASING_STATE then recomputed[rec[2]] = true end
      return REPAIRED
    end
    if rec[1] ~= BINDING or job[jid][3] ~= 0 then return SOUND end
    return bind_again(jid, tix, rec)
  end

  local jids, fields = {}, {}
  for i, item in ipairs(asked_tasks) do jids[i], fields[i] = item[1], item[1] .. '.' .. item[2] end
  load_jobs(jids, #jids)
  local values = fetch(TASK, fields, #fields)
  for i, item in ipairs(asked_tasks) do results[6][i] = judge_task(item, values[i]) end
end

-- Nominations --------------------------------------------------------------------------------------

do
  local jids = {}
  for i, item in ipairs(asked_nominations) do jids[i] = item[1] end
  load_jobs(jids, #jids)
  local holders = call('HKEYS', NOM)
  for i, jid in ipairs(holders) do holders[i] = tonumber(jid) end
  load_nominations(holders, #holders)

  local function judge_nomination(jid, record, evidence)
    if not is_as_seen(record, evidence) then return STALE end
    if job[jid] and job[jid][3] == 0 then return SOUND end
    for _, run in ipairs(nomination[jid][4]) do
      for _, row in ipairs(run[4]) do recomputed[row] = true end
    end
    nomination[jid] = nil
    nomination_dirty[jid] = true
    ended[#ended + 1] = jid
    return REPAIRED
  end

  local values = fetch(NOM, jids, #jids)
  for i, item in ipairs(asked_nominations) do
    results[4][i] = judge_nomination(item[1], values[i], item[2])
  end
end

-- Sums of all task records -------------------------------------------------------------------------

local on_row, of_job = {}, {}  -- row -> cid -> {tasks, leaving}; jid -> {tix, state, ...} lists
local with_devices = {}  -- row -> records of tasks there that have devices
local in_queue = {}  -- qid -> cid -> {tasks, leaving}
do
  local function count(of, key, cid, leaving)
    if not of[key] then of[key] = {} end
    local counts = of[key][cid]
    if not counts then
      counts = {0, 0}
      of[key][cid] = counts
      want_class(cid)
    end
    counts[1] = counts[1] + 1
    if leaving then counts[2] = counts[2] + 1 end
  end

  for i = 1, #asked_jobs do of_job[asked_jobs[i][1]] = {} end
  for _, item in ipairs(asked_nodes) do recomputed[item[1]] = true end
  local by_job, by_queue = #asked_jobs > 0, #asked_queues > 0

  local function note_member(name, record)
    local jid, tix = string.match(name, '^(%d+)%.(%d+)$')
    local members = of_job[tonumber(jid)]
    if members then
      local rec = read_task(record, tonumber(jid), tonumber(tix))
      rec.tix = tonumber(tix)
      members[#members + 1] = rec
      want_class(rec[3])
    end
  end

  -- Jobs of the tasks that hold something, by their numbers as text; how many of which class.
  local holders, classes_of, leaves, n = {}, {}, {}, 0
  local function note_holder(name, cid, leaving)
    n = n + 1
    holders[n], classes_of[n], leaves[n] = string.match(name, '^%d+'), cid, leaving
  end

  local function note_devices(name, record, row)
    local jid, tix = string.match(name, '^(%d+)%.(%d+)$')
    local rec = read_task(record, tonumber(jid), tonumber(tix))
    if not rec.devices then return end
    with_devices[row] = with_devices[row] or {}
    table.insert(with_devices[row], rec)
  end

  -- One step for each task record there is: what costs is to be asked for.
  local function sum_up(name, record)
    if by_job then note_member(name, record) end
    local state, row, cid = sunpack('<BI4I4', record)
    if state < BINDING or state > RELEASING_STATE or removed[name] then return end
    if recomputed[row] then
      count(on_row, row, cid, state == RELEASING_STATE)
      if #record > 19 then note_devices(name, record, row) end
    end
    if by_queue then note_holder(name, cid, state == RELEASING_STATE) end
  end

  local names = call('HKEYS', TASK)
  local records = fetch(TASK, names, #names)
  for i, name in ipairs(names) do sum_up(name, records[i]) end

  local jids, qid_of, m = {}, {}, 0
  for i = 1, n do
    if not qid_of[holders[i]] then
      qid_of[holders[i]] = -1
      m = m + 1
      jids[m] = holders[i]
    end
  end
  local values = fetch(JOB, jids, m)
  for i = 1, m do
    if values[i] then
      local _, qid = sunpack('<dd', values[i])
      qid_of[jids[i]] = qid
    end
  end
  for i = 1, n do
    local qid = qid_of[holders[i]]
    if qid >= 0 then count(in_queue, qid, classes_of[i], leaves[i]) end
  end
end

-- Nodes ----------------------------------------------------------------------------------------------

for row in pairs(recomputed) do want_row(row) end
load_nodes()
load_classes()

do
  local function copy_of(rec)
    local copy = {}
    for i = 1, #rec do copy[i] = rec[i] end
    return copy
  end

  local rows = {}
  for i, item in ipairs(asked_nodes) do rows[i] = item[1] end
  local stale = {}
  for i, record in ipairs(fetch(NODE, rows, #rows)) do
    if not is_as_seen(record, asked_nodes[i][2]) then stale[rows[i]] = true end
  end

  -- Whether the classes of all that holds a node are known.
  local unknown = {}
  for _, held in pairs(nomination) do
    for _, run in ipairs(held[4]) do
      for _, row in ipairs(run[4]) do
        if not class[run[1]] then unknown[row] = true end
      end
    end
  end
  local function is_known(row)
    for cid in pairs(on_row[row] or {}) do
      if not class[cid] then return false end
    end
    return node[row] and not unknown[row]
  end

  -- What is held of a node is nothing, and nothing is below 0.
  local function clear(rec)
    for slot = 0, rec[3] - 1 do
      local b = 4 + 5 * slot
      if rec[b] < 0 then rec[b] = implied_of(slot) end
      if rec[b + OBSERVED] < 0 then rec[b + OBSERVED] = 0 end
      rec[b + USED], rec[b + RELEASING], rec[b + NOMINATED] = 0, 0, 0
    end
  end

  local before = {}  -- row -> its record as it was, of those that are added up anew
  for row in pairs(recomputed) do
    if not stale[row] and is_known(row) then before[row] = copy_of(node[row]) end
  end
  named.clear(before)
  for row in pairs(before) do
    clear(node[row])
    for cid, counts in pairs(on_row[row] or {}) do
      add_to_node(row, class[cid], USED, counts[1])
      add_to_node(row, class[cid], RELEASING, counts[2])
    end
    for _, rec in ipairs(with_devices[row] or {}) do
      named.add(row, named.devices(rec.devices), USED, 1)
      if rec[1] == RELEASING_STATE then named.add(row, named.devices(rec.devices), RELEASING, 1) end
    end
  end
  for _, held in pairs(nomination) do
    for _, run in ipairs(held[4]) do
      for _, row in ipairs(run[4]) do
        if before[row] then add_to_node(row, class[run[1]], NOMINATED, 1, run[6]) end
      end
    end
  end

  -- The version of a node moves where it, or a thing of it, was not as it should be.
  local things_moved = named.moved_rows()
  for row, old in pairs(before) do
    local rec, moved = node[row], things_moved[row]
    for i = 4, #rec do
      if rec[i] ~= (old[i] or 0) then moved = true end
    end
    if moved then touch(row, rec) end
  end

  local function judge_node(row)
    if stale[row] then return STALE end
    if not before[row] then return UNKNOWN end
    if node[row][1] == before[row][1] then return SOUND end
    return REPAIRED
  end

  for i, row in ipairs(rows) do results[1][i] = judge_node(row) end
end

-- Queues ---------------------------------------------------------------------------------------------

if #asked_queues > 0 then
  local qids = call('HKEYS', QUEUE)
  for i, qid in ipairs(qids) do qids[i] = tonumber(qid) end
  load_queues(qids, #qids)

  local before, unknown = {}, {}
  for qid, rec in pairs(queue) do
    local totals = {}
    for b = 3, 2 + QUEUE_WIDTH * rec[2], QUEUE_WIDTH do
      for _, at in ipairs({b, b + 1, b + LEAVING, b + LEAVING + 1}) do
        totals[at] = rec[at]
        rec[at] = 0
      end
    end
    before[qid] = totals
  end

  for qid, of in pairs(in_queue) do
    for cid, counts in pairs(of) do
      if class[cid] then
        charge(qid, class[cid], counts[1])
        leave(qid, class[cid], counts[2])
      else
        local above = qid
        while above >= 0 and queue[above] do
          unknown[above] = true
          above = queue[above][1]
        end
      end
    end
  end

  local function is_sound(qid)
    local rec, totals = queue[qid], before[qid]
    for b = 3, 2 + QUEUE_WIDTH * rec[2], QUEUE_WIDTH do
      for _, at in ipairs({b, b + 1, b + LEAVING, b + LEAVING + 1}) do
        if rec[at] ~= (totals[at] or 0) then return false end
      end
    end
    return true
  end

  local function judge_queue(qid, record, evidence)
    if not is_as_seen(record, evidence) then return STALE end
    if unknown[qid] then return UNKNOWN end
    if is_sound(qid) then return SOUND end
    queue_dirty[qid] = true
    return REPAIRED
  end

  local numbers = {}
  for i, item in ipairs(asked_queues) do numbers[i] = item[1] end
  local values = fetch(QUEUE, numbers, #numbers)
  for i, item in ipairs(asked_queues) do
    results[2][i] = judge_queue(item[1], values[i], item[2])
  end
end

-- Groups ---------------------------------------------------------------------------------------------

if #asked_jobs > 0 then
  local jids = {}
  for i, item in ipairs(asked_jobs) do jids[i] = item[1] end
  local values = fetch(JOB, jids, #jids)
  load_jobs(jids, #jids)
  local specs = fetch(JOBSPEC, jids, #jids)

  -- Members by their records (record.lua, members_after): who holds a node and was not evicted, who
  -- succeeded, and of those that ask for nothing also who is pending.
  local function counts(rec)
    if rec[1] == FAILED or rec[1] == LOST or (rec.by and rec.by >= 0) then return false end
    return rec[1] ~= 0 or (class[rec[3]] and class[rec[3]].best_effort)
  end

  local function role_of(told)
    if type(told) ~= 'table' then return nil end
    for k = 2, 5 do
      if type(told[k]) ~= 'number' then return nil end
    end
    return {cid = told[2], first = told[3], count = told[4], group = told[5]}
  end

  -- The roles of a job's specification (specs_jobs.py), nil where it is of another form.
  local function read_roles(spec)
    local _, told = pcall(munpack, string.sub(spec or '', 1, -5))  -- or what is wrong with it
    if type(told) ~= 'table' or type(told[11]) ~= 'table' then return nil end
    local roles = {}
    for i, role in ipairs(told[11]) do
      roles[i] = role_of(role)
      if not roles[i] then return nil end
      want_class(roles[i].cid)
    end
    return roles
  end

  local roles_of = {}
  for i, jid in ipairs(jids) do roles_of[jid] = read_roles(specs[i]) end
  load_classes()

  local function held_of(rec)
    local held = {}
    for group = 0, rec[4] - 1 do held[group] = rec[7 + 3 * group] end
    return held
  end

  local function is_sound(rec, held)
    for group = 0, rec[4] - 1 do
      if rec[7 + 3 * group] ~= held[group] then return false end
    end
    return true
  end

  -- Members that ask for nothing and never had a record.
  local function add_waiting(rec, roles, recorded)
    for _, role in ipairs(roles) do
      if class[role.cid] and class[role.cid].best_effort and role.group < rec[4] then
        local n = role.count
        for tix in pairs(recorded) do
          if tix >= role.first and tix < role.first + role.count then n = n - 1 end
        end
        add_to_groups(rec, role.group, n)
      end
    end
  end

  local function judge_job(jid, record, evidence)
    if not is_as_seen(record, evidence) then return STALE end
    local rec = job[jid]
    local held, top, recorded = held_of(rec), 5 + 3 * rec[4], {}
    for group = 0, rec[4] - 1 do rec[7 + 3 * group] = 0 end
    for _, task in ipairs(of_job[jid]) do
      recorded[task.tix] = true
      if task.tix >= rec[top] then rec[top] = task.tix + 1 end
      if task[5] < rec[4] and counts(task) then add_to_groups(rec, task[5], 1) end
    end
    if is_sound(rec, held) then return SOUND end
    if not roles_of[jid] then return UNKNOWN end
    add_waiting(rec, roles_of[jid], recorded)
    if is_sound(rec, held) then return SOUND end
    job_dirty[jid] = true
    return REPAIRED
  end

  for i, item in ipairs(asked_jobs) do
    results[3][i] = judge_job(item[1], values[i], item[2])
  end
end

-- Counters of cross-node rules -------------------------------------------------------------------------

local domain_args = {}
do
  local function judge_domain(name, record, evidence)
    if not is_as_seen(record, evidence) then return STALE end
    if sunpack('<d', record) >= 0 then return SOUND end
    domain_args[#domain_args + 1] = name
    domain_args[#domain_args + 1] = sealed(spack('<d', UNSEEN_VERSION))
    return REPAIRED
  end

  local names = {}
  for i, item in ipairs(asked_domains) do names[i] = item[1] end
  local values = fetch(DOMAIN, names, #names)
  for i, item in ipairs(asked_domains) do
    results[5][i] = judge_domain(item[1], values[i], item[2])
  end
end

-- Write ------------------------------------------------------------------------------------------------

-- The log tells it as a record of states without any: what a follower keeps of it are rows as they
-- stand now and nominations that ended. Totals of queues and groups are kept by nobody but the ledger.
local rows, moved = moved_nodes()
local records = pack_records(moved, named.moved(version_of))
if #rows > 0 or #ended > 0 then
  plan_entry(LOG, {1, writer, epoch, sequence, {}, ended, rows}, records)
end
if #binds > 0 then plan_entry(BINDS, {binds, incarnations, {}, #assigned > 0 and assigned or nil}) end
plan_nodes(rows, moved)
named.plan()
plan_chunks('HSET', TASK, task_args, #task_args)
plan_chunks('HDEL', TASK, task_gone, #task_gone)
plan_jobs(job_dirty)
plan_queues()
plan_nominations(nomination_dirty)
plan_chunks('HSET', DOMAIN, domain_args, #domain_args)
return write_and_answer({COMMITTED, results, rows}, records)
