-- Judge a batch of statements, each alone and in order, then write what was accepted.
-- ARGV = writer, epoch, sequence, run id, packed columns, now ('' = the server's time).
--
-- The columns of a batch (little-endian integers of 4 bytes, see codec.py):
--   heads  jid, job version, qid, priority, core runs, tail runs    per statement
--   runs   kind, cid, group, operations                             per run
--   tasks, rows, versions, specs, levels                            per operation
--   extras {index, displaced, domains, expiry}                      per statement that has any
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

local function load_owners()
  local jids, qids, n = {}, {}, 0
  for index = 1, statement_count do jids[index] = heads[6 * index - 5] end
  load_jobs(jids, statement_count)
  local seen = {}
  for index = 1, statement_count do
    local rec = job[jids[index]]
    if rec and not seen[rec[2]] then
      seen[rec[2]] = true
      n = n + 1
      qids[n] = rec[2]
    end
  end
  load_queues(qids, n)
end

local function load_tasks()
  local values = fetch(TASK, names, operation_count)
  for o = 1, operation_count do
    if values[o] then taken[names[o]] = true end
  end
end

local function load_domains()
  for _, extra in pairs(extras) do
    for _, d in ipairs(extra[3]) do
      domain_count = domain_count + 1
      domain_names[domain_count] = d[1]
    end
  end
  local values = fetch(DOMAIN, domain_names, domain_count)
  for i = 1, domain_count do
    domain[domain_names[i]] = values[i] and sunpack('<d', values[i]) or 0
  end
end

-- One operation --------------------------------------------------------------------------------

local promised, moved  -- of the statement being judged: tasks it nominated; saw an old version

-- COMMITTED where the request fits; FIT goes before NOMINATION.
local function misfit(rec, cls, kind)
  local base, amount, offers = cls.base, cls.amount, cls.implied
  local limit = 4 + 5 * rec[3]
  local verdict = COMMITTED
  for k = 1, cls.n do
    local b, r, capacity = base[k], amount[k], offers[k]
    local idle, future = r, r
    if b < limit then
      if rec[b] > capacity then capacity = rec[b] end
      idle = r + rec[b + 1] + rec[b + 2]
      future = idle - rec[b + 3] + rec[b + 4]
    end
    if kind == ALLOCATE and idle > capacity then return FIT end
    if future > capacity then verdict = NOMINATION end
  end
  return verdict
end

local function judge_operation(o, kind, cls)
  local name = names[o]
  if taken[name] or (promised and promised[name]) then return TASK_TAKEN, tasks[o] end
  local row = rows[o]
  local rec = node[row]
  if not rec or rec[2] ~= specs[o] then return NODE_MOVED, row end
  return misfit(rec, cls, kind), row
end

local function apply_operation(o, kind, cls)
  local row = rows[o]
  local rec = node[row]
  if stamp[row] == turn then
    if versions[o] ~= rec[1] - 1 then moved = true end
  else
    if versions[o] ~= rec[1] then moved = true end
    stamp[row] = turn
    rec[1] = rec[1] + 1
  end
  if kind == ALLOCATE then
    taken[names[o]] = true
    add_to_node(rec, cls, USED, 1)
  else
    promised = promised or {}
    promised[names[o]] = true
    add_to_node(rec, cls, NOMINATED, 1)
  end
end

local function undo_operation(o, kind, cls)
  local row = rows[o]
  local rec = node[row]
  if kind == ALLOCATE then
    taken[names[o]] = nil
    add_to_node(rec, cls, USED, -1)
  else
    add_to_node(rec, cls, NOMINATED, -1)
  end
  untouch(row, rec)
end

-- Groups ---------------------------------------------------------------------------------------

-- Add n members to a group and those above it. Returns the first that would come to stand between
-- 0 and its minimum and did not before; then nothing is added. (Members are only added here, so what
-- is below its minimum now was not above it before.)
local function join_group(rec, group, n)
  local above = group
  while above >= 0 do
    local b = 5 + 3 * above
    local minimum, held = rec[b + 1], rec[b + 2]
    if held + n < minimum and held <= 0 then return above end
    above = rec[b]
  end
  add_to_groups(rec, group, n)
  return nil
end

local function each_allocation(first, last, act)
  for k = first, last do
    local r = 4 * k - 4
    if runs[r + 1] == ALLOCATE and runs[r + 4] > 0 then
      local found = act(runs[r + 3], runs[r + 4])
      if found then return found end
    end
  end
  return nil
end

-- The same for all runs of a core together.
local function join_groups(rec, first, last)
  if first == last then
    local r = 4 * first - 4
    if runs[r + 1] ~= ALLOCATE or runs[r + 4] == 0 then return nil end
    return join_group(rec, runs[r + 3], runs[r + 4])
  end
  local before = {}
  each_allocation(first, last, function(group, n)
    local above = group
    while above >= 0 do
      if not before[above] then before[above] = rec[7 + 3 * above] end
      above = rec[5 + 3 * above]
    end
    add_to_groups(rec, group, n)
  end)
  local broken = each_allocation(first, last, function(group)
    while group >= 0 do
      if rec[7 + 3 * group] < rec[6 + 3 * group] and before[group] <= 0 then return group end
      group = rec[5 + 3 * group]
    end
  end)
  if broken then
    each_allocation(first, last, function(group, n) add_to_groups(rec, group, -n) end)
  end
  return broken
end

local function charge_core(rec, first, last)
  for k = first, last do
    local r = 4 * k - 4
    if runs[r + 1] == ALLOCATE and runs[r + 4] > 0 then
      local over = charge(rec[2], class[runs[r + 2]], runs[r + 4])
      if over then return over, k end
    end
  end
  return nil, last
end

local function discharge_core(rec, first, last)
  for k = first, last do
    local r = 4 * k - 4
    if runs[r + 1] == ALLOCATE then charge(rec[2], class[runs[r + 2]], -runs[r + 4]) end
  end
end

-- The core -------------------------------------------------------------------------------------

local function give_back(jid, displaced, sign, mark)
  if nomination[jid] then shift_nomination(nomination[jid], sign, mark) end
  for _, other in ipairs(displaced) do
    if other ~= jid and nomination[other] then shift_nomination(nomination[other], sign, mark) end
  end
end

local function judge_rank(jid, priority, displaced)
  local seen = {}
  for _, other in ipairs(displaced) do
    if seen[other] then reject('job ' .. jid .. ': displaced names job ' .. other .. ' twice') end
    seen[other] = true
    local held = nomination[other]
    if other ~= jid and held and held[1] >= priority then return RANK, other end
  end
  return COMMITTED, -1
end

local function judge_job(index, jid)
  local h, rec = 6 * index - 6, job[jid]
  if not rec or rec[3] ~= 0 or rec[1] ~= heads[h + 2] or rec[2] ~= heads[h + 3] then
    return JOB_MOVED, jid
  end
  if not queue[rec[2]] then return QUEUE_FULL, rec[2] end
  for k = first_run[index], first_run[index + 1] - 1 do
    local r = 4 * k - 4
    if not class[runs[r + 2]] or runs[r + 3] >= rec[4] then return JOB_MOVED, jid end
  end
  return COMMITTED, -1
end

local function meets(d)
  local value, condition = domain[d[1]], d[3]
  if condition == 'eq0' then return value == 0 end
  if condition == 'ge1' then return value >= 1 end
  if condition == 'le' then return value <= d[4] end
  return true
end

local function judge_domains(domains)
  for k, d in ipairs(domains) do
    if not meets(d) then
      for i = 1, k - 1 do domain[domains[i][1]] = domain[domains[i][1]] - domains[i][2] end
      return k - 1
    end
    domain[d[1]] = domain[d[1]] + d[2]
  end
  return nil
end

local function undo_operations(first, last, last_op)
  for k = first, last do
    local r = 4 * k - 4
    local kind, cls = runs[r + 1], class[runs[r + 2]]
    for o = first_op[k], first_op[k + 1] - 1 do
      if o > last_op then return end
      undo_operation(o, kind, cls)
    end
  end
end

local function place_core(first, last)
  for k = first, last do
    local r = 4 * k - 4
    local kind, cls = runs[r + 1], class[runs[r + 2]]
    for o = first_op[k], first_op[k + 1] - 1 do
      local verdict, at = judge_operation(o, kind, cls)
      if verdict ~= COMMITTED then
        undo_operations(first, k, o - 1)
        return verdict, at
      end
      apply_operation(o, kind, cls)
    end
  end
  return COMMITTED, -1
end

local function judge_core(rec, first, last, domains)
  local verdict, at = place_core(first, last)
  if verdict ~= COMMITTED then return verdict, at end
  local over, reached = charge_core(rec, first, last)
  if over then
    verdict, at = QUEUE_FULL, over
  else
    at = join_groups(rec, first, last)
    if at then
      verdict = GANG
    else
      at = judge_domains(domains)
      if not at then return COMMITTED, -1 end
      verdict = DOMAIN_BROKEN
      each_allocation(first, last, function(group, n) add_to_groups(rec, group, -n) end)
    end
  end
  discharge_core(rec, first, reached)
  undo_operations(first, last, operation_count)
  return verdict, at
end

-- Accounts of the batch ------------------------------------------------------------------------

local verdicts, ats, tails, dropped = {}, {}, {}, {}
local binds, bind_count, task_args, task_count = {}, 0, {}, 0
local job_dirty, nomination_dirty = {}, {}
local asked, asked_count = {}, 0  -- rows to show to the writer although they did not change

local function ask(row)
  if node[row] then
    asked_count = asked_count + 1
    asked[asked_count] = row
  end
end

local function refuse(index, verdict, at)
  verdicts[index] = verdict
  ats[#ats + 1] = index
  ats[#ats + 1] = at
  if verdict == FIT or verdict == NOMINATION or verdict == NODE_MOVED then ask(at) end
  -- Whatever else is not as the writer believed helps it to find another place.
  for o = first_op[first_run[index]], first_op[first_run[index + 1]] - 1 do
    local rec = node[rows[o]]
    if rec and rec[1] ~= versions[o] then ask(rows[o]) end
  end
end

local function book_task(rec, o, cid, group)
  local top = 5 + 3 * rec[4]
  if tasks[o] >= rec[top] then rec[top] = tasks[o] + 1 end
  task_args[task_count + 1] = names[o]
  task_args[task_count + 2] = spack(TASK_FORMAT, BINDING, rows[o], cid, 1, group)
  task_count = task_count + 2
end

local function pick(values, k, chosen)
  local list, first = {}, first_op[k]
  if not chosen then
    for o = first, first_op[k + 1] - 1 do list[o - first + 1] = values[o] end
    return list
  end
  for i = 1, #chosen do list[i] = values[chosen[i]] end
  return list
end

-- Enter a run into the accounts: all its operations, or those `chosen`. Binds are flat lists of
-- jid, cid, count, tasks, rows. Nominations of the statement are added to the list given.
local function book(jid, rec, k, chosen, nominated)
  local r, first = 4 * k - 4, first_op[k]
  local n = chosen and #chosen or runs[r + 4]
  if n == 0 then return nominated end
  local cid, group = runs[r + 2], runs[r + 3]
  if runs[r + 1] ~= ALLOCATE then
    nominated = nominated or {}
    nominated[#nominated + 1] =
      {cid, group, pick(tasks, k, chosen), pick(rows, k, chosen), pick(levels, k, chosen)}
    return nominated
  end
  job_dirty[jid] = true
  mark_queue(rec[2])
  binds[bind_count + 1], binds[bind_count + 2], binds[bind_count + 3] = jid, cid, n
  bind_count = bind_count + 3
  for i = 1, n do
    local o = chosen and chosen[i] or first + i - 1
    binds[bind_count + i] = tasks[o]
    book_task(rec, o, cid, group)
  end
  bind_count = bind_count + n
  for i = 1, n do binds[bind_count + i] = rows[chosen and chosen[i] or first + i - 1] end
  bind_count = bind_count + n
  return nominated
end

-- The tail -------------------------------------------------------------------------------------

local function judge_tail_operation(rec, o, kind, cls, group)
  local verdict = judge_operation(o, kind, cls)
  if verdict ~= COMMITTED then return verdict end
  if kind == ALLOCATE then
    if charge(rec[2], cls, 1) then
      charge(rec[2], cls, -1)
      return QUEUE_FULL
    end
    if join_group(rec, group, 1) then
      charge(rec[2], cls, -1)
      return GANG
    end
  end
  apply_operation(o, kind, cls)
  return COMMITTED
end

local function judge_tail(index, jid, rec, first, last, nominated)
  local told = {index}
  for k = first, last do
    local r = 4 * k - 4
    local kind, cls, group, chosen = runs[r + 1], class[runs[r + 2]], runs[r + 3], {}
    for o = first_op[k], first_op[k + 1] - 1 do
      local verdict = judge_tail_operation(rec, o, kind, cls, group)
      told[#told + 1] = verdict
      if verdict == COMMITTED then chosen[#chosen + 1] = o else ask(rows[o]) end
    end
    nominated = book(jid, rec, k, chosen, nominated)
  end
  tails[#tails + 1] = told
  return nominated
end

local function now()
  if ARGV[6] ~= '' then return tonumber(ARGV[6]) end
  local t = call('TIME')
  return tonumber(t[1]) + tonumber(t[2]) / 1000000
end

-- The statement's nominations take the place of all its job had, and of the displaced.
local function replace_nominations(index, jid, displaced, nominated)
  local own, ended = nomination[jid], {}
  for _, other in ipairs(displaced) do
    if other ~= jid and nomination[other] then
      nomination[other] = nil
      nomination_dirty[other] = true
      ended[#ended + 1] = other
    end
  end
  if own then
    nomination[jid] = nil
    nomination_dirty[jid] = true
    ended[#ended + 1] = jid
  end
  if nominated then
    local extra = extras[index]
    nomination[jid] = {heads[6 * index - 2], own and own[2] or now(), extra and extra[4] or 0,
      nominated}
    nomination_dirty[jid] = true
  end
  if #ended > 0 then dropped[#dropped + 1] = {index, ended} end
end

local function accept(index, jid, rec, first, tail, displaced, domains)
  local nominated, last = nil, first_run[index + 1] - 1
  for k = first, tail - 1 do nominated = book(jid, rec, k, nil, nominated) end
  if tail <= last then nominated = judge_tail(index, jid, rec, tail, last, nominated) end
  for _, d in ipairs(domains) do domain_dirty[d[1]] = true end
  if #displaced > 0 or nominated or nomination[jid] then
    replace_nominations(index, jid, displaced, nominated)
  end
  verdicts[index] = moved and RECHECKED or COMMITTED
end

local function judge(index)
  turn, moved, promised = index, false, nil
  local jid, first = heads[6 * index - 5], first_run[index]
  local tail = first + heads[6 * index - 1]
  local extra = extras[index]
  local displaced, domains = extra and extra[2] or NONE, extra and extra[3] or NONE
  local verdict, at = judge_job(index, jid)
  if verdict == COMMITTED and #displaced > 0 then
    verdict, at = judge_rank(jid, heads[6 * index - 2], displaced)
  end
  if verdict ~= COMMITTED then return refuse(index, verdict, at) end
  local rec = job[jid]
  give_back(jid, displaced, -1, touch)
  verdict, at = judge_core(rec, first, tail - 1, domains)
  if verdict == COMMITTED then return accept(index, jid, rec, first, tail, displaced, domains) end
  give_back(jid, displaced, 1, untouch)
  refuse(index, verdict, at)
end

-- Write ------------------------------------------------------------------------------------------

local function write_domains()
  local args, n = {}, 0
  for name in pairs(domain_dirty) do
    args[n + 1], args[n + 2] = name, spack('<d', domain[name])
    n = n + 2
  end
  each_chunk('HSET', DOMAIN, args, n)
end

local function add_asked(touched, records)
  local seen, all_rows, all_records, n = {}, {}, {}, #touched
  for i = 1, n do
    seen[touched[i]] = true
    all_rows[i], all_records[i] = touched[i], records[i]
  end
  for i = 1, asked_count do
    local row = asked[i]
    if not seen[row] then
      seen[row] = true
      n = n + 1
      all_rows[n], all_records[n] = row, pack_node(node[row])
    end
  end
  return all_rows, all_records
end

local function write_all()
  local touched, records = write_nodes()
  each_chunk('HSET', TASK, task_args, task_count)
  write_jobs(job_dirty)
  write_queues()
  write_nominations(nomination_dirty)
  write_domains()
  if statement_count > 0 then
    call('XADD', LOG, '*', 'p', mpack({0, writer, epoch, sequence, ARGV[5], verdicts, tails, dropped,
      touched, records}))
  end
  if bind_count > 0 then call('XADD', BINDS, '*', 'p', mpack(binds)) end
  if asked_count > 0 then touched, records = add_asked(touched, records) end
  return answer({COMMITTED, verdicts, ats, tails, touched}, records)
end

read_batch()
collect()
load_owners()
load_holders()
load_nodes()
load_classes()
load_tasks()
load_domains()
for index = 1, statement_count do judge(index) end
return write_all()
