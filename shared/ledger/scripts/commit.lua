-- Judge a batch of statements, each alone and in order, then write what was accepted.
-- ARGV = writer, epoch, sequence, run id, packed list of packed statements, now ('' = server time).
-- A statement is {jid, job version, qid, priority, core runs, tail runs, displaced, domains, expiry};
-- a run is {kind, cid, group, tasks, rows, versions, specs, levels}, and here 9 = task fields.
local ALLOCATE = 0

local early = gate()
if early then return early end

local raws = munpack(ARGV[5])
local statements = {}
local fields, field_count, taken = {}, 0, {}
local domain_names, domain_count, domain, domain_dirty = {}, 0, {}, {}

-- Load -----------------------------------------------------------------------------------------

local function collect_run(prefix, run)
  local tasks, rows = run[4], run[5]
  local n = #tasks
  if #rows ~= n or #run[6] ~= n or #run[7] ~= n or #run[8] ~= n then
    reject('statement of job ' .. prefix .. ': tasks, rows, versions, specs, levels differ in length')
  end
  want_class(run[2])
  local names = {}
  for i = 1, n do
    local row = rows[i]
    if not wanted_row[row] then want_row(row) end
    local name = prefix .. tasks[i]
    names[i] = name
    field_count = field_count + 1
    fields[field_count] = name
  end
  run[9] = names
end

local function load_tasks()
  local values = fetch(TASK, fields, field_count)
  for i = 1, field_count do
    if values[i] then taken[fields[i]] = true end
  end
end

local function load_domains()
  local values = fetch(DOMAIN, domain_names, domain_count)
  for i = 1, domain_count do
    domain[domain_names[i]] = values[i] and sunpack('<d', values[i]) or 0
  end
end

local function load_all()
  local jids, holders, n, m, seen = {}, {}, 0, 0, {}
  for i = 1, #raws do
    local s = munpack(raws[i])
    statements[i] = s
    local jid = s[1]
    n, m = n + 1, m + 1
    jids[n], holders[m] = jid, jid
    local prefix = jid .. '.'
    for _, run in ipairs(s[5]) do collect_run(prefix, run) end
    for _, run in ipairs(s[6]) do collect_run(prefix, run) end
    for _, other in ipairs(s[7]) do
      m = m + 1
      holders[m] = other
    end
    for _, d in ipairs(s[8]) do
      domain_count = domain_count + 1
      domain_names[domain_count] = d[1]
    end
  end
  load_jobs(jids, n)
  load_nominations(holders, m)
  local qids, q = {}, 0
  for i = 1, n do
    local rec = job[jids[i]]
    if rec and not seen[rec[2]] then
      seen[rec[2]] = true
      q = q + 1
      qids[q] = rec[2]
    end
  end
  load_queues(qids, q)
  load_nodes()
  load_classes()
  load_tasks()
  load_domains()
end

-- One operation --------------------------------------------------------------------------------

local promised, moved  -- of the statement being judged: fields it nominated; saw an old version

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

local function judge_operation(run, i, cls)
  local name = run[9][i]
  if taken[name] or promised[name] then return TASK_TAKEN, run[4][i] end
  local row = run[5][i]
  local rec = node[row]
  if not rec or rec[2] ~= run[7][i] then return NODE_MOVED, row end
  return misfit(rec, cls, run[1]), row
end

local function apply_operation(run, i, cls)
  local row = run[5][i]
  local rec = node[row]
  local version = rec[1]
  if stamp[row] == turn then version = version - 1 end
  if run[6][i] ~= version then moved = true end
  touch(row, rec)
  if run[1] == ALLOCATE then
    taken[run[9][i]] = true
    add_to_node(rec, cls, USED, 1)
  else
    promised[run[9][i]] = true
    add_to_node(rec, cls, NOMINATED, 1)
  end
end

local function undo_operation(run, i, cls)
  local row = run[5][i]
  local rec = node[row]
  if run[1] == ALLOCATE then
    taken[run[9][i]] = nil
    add_to_node(rec, cls, USED, -1)
  else
    add_to_node(rec, cls, NOMINATED, -1)
  end
  untouch(row, rec)
end

-- The first group, from `group` upwards, that n more members leave between 0 and its minimum.
local function broken_group(rec, group, before)
  while group >= 0 do
    local b = 5 + 3 * group
    local minimum, held, old = rec[b + 1], rec[b + 2], before[group]
    if held < minimum and (old <= 0 or old >= minimum) then return group end
    group = rec[b]
  end
  return nil
end

local function note_groups(rec, group, before)
  while group >= 0 do
    local b = 5 + 3 * group
    if not before[group] then before[group] = rec[b + 2] end
    group = rec[b]
  end
end

-- The core -------------------------------------------------------------------------------------

local function give_back(s, sign, mark)
  local jid = s[1]
  if nomination[jid] then shift_nomination(nomination[jid], sign, mark) end
  for _, other in ipairs(s[7]) do
    if other ~= jid and nomination[other] then shift_nomination(nomination[other], sign, mark) end
  end
end

local function judge_rank(s)
  local seen = {}
  for _, other in ipairs(s[7]) do
    if seen[other] then reject('job ' .. s[1] .. ': displaced names job ' .. other .. ' twice') end
    seen[other] = true
    local held = nomination[other]
    if other ~= s[1] and held and held[1] >= s[4] then return RANK, other end
  end
  return COMMITTED, -1
end

local function judge_job(s)
  local rec = job[s[1]]
  if not rec or rec[3] ~= 0 or rec[1] ~= s[2] or rec[2] ~= s[3] then return JOB_MOVED, s[1] end
  if not queue[rec[2]] then return QUEUE_FULL, rec[2] end
  for part = 5, 6 do
    for _, run in ipairs(s[part]) do
      if not class[run[2]] or run[3] < 0 or run[3] >= rec[4] then return JOB_MOVED, s[1] end
    end
  end
  return judge_rank(s)
end

local function meets(d)
  local value, condition = domain[d[1]], d[3]
  if condition == 'eq0' then return value == 0 end
  if condition == 'ge1' then return value >= 1 end
  if condition == 'le' then return value <= d[4] end
  return true
end

local function undo_core(s, last_run, last_op, charged, grouped, domains)
  local rec = job[s[1]]
  for k = 1, last_run do
    local run = s[5][k]
    local cls, n = class[run[2]], #run[4]
    if k <= charged and run[1] == ALLOCATE then charge(rec[2], cls, -n) end
    if k <= grouped and run[1] == ALLOCATE then add_to_groups(rec, run[3], -n) end
    if k == last_run then n = last_op end
    for i = 1, n do undo_operation(run, i, cls) end
  end
  for k = 1, domains do
    local d = s[8][k]
    domain[d[1]] = domain[d[1]] - d[2]
  end
  give_back(s, 1, untouch)
end

local function judge_core(s)
  local core, rec = s[5], job[s[1]]
  local runs = #core
  for k = 1, runs do
    local run = core[k]
    local cls = class[run[2]]
    for i = 1, #run[4] do
      local verdict, at = judge_operation(run, i, cls)
      if verdict ~= COMMITTED then
        undo_core(s, k, i - 1, 0, 0, 0)
        return verdict, at
      end
      apply_operation(run, i, cls)
    end
  end
  local last = runs > 0 and #core[runs][4] or 0
  for k = 1, runs do
    local run = core[k]
    if run[1] == ALLOCATE then
      local over = charge(rec[2], class[run[2]], #run[4])
      if over then
        undo_core(s, runs, last, k, 0, 0)
        return QUEUE_FULL, over
      end
    end
  end
  local before = {}
  for k = 1, runs do
    local run = core[k]
    if run[1] == ALLOCATE and #run[4] > 0 then
      note_groups(rec, run[3], before)
      add_to_groups(rec, run[3], #run[4])
    end
  end
  for k = 1, runs do
    local run = core[k]
    local group = run[1] == ALLOCATE and #run[4] > 0 and broken_group(rec, run[3], before)
    if group then
      undo_core(s, runs, last, runs, runs, 0)
      return GANG, group
    end
  end
  for k, d in ipairs(s[8]) do
    if not meets(d) then
      undo_core(s, runs, last, runs, runs, k - 1)
      return DOMAIN_BROKEN, k - 1
    end
    domain[d[1]] = domain[d[1]] + d[2]
  end
  return COMMITTED, -1
end

-- The tail -------------------------------------------------------------------------------------

local function judge_tail_operation(rec, run, i, cls)
  local verdict, at = judge_operation(run, i, cls)
  if verdict ~= COMMITTED then return verdict, at end
  if run[1] == ALLOCATE then
    if charge(rec[2], cls, 1) then
      charge(rec[2], cls, -1)
      return QUEUE_FULL
    end
    local before = {}
    note_groups(rec, run[3], before)
    add_to_groups(rec, run[3], 1)
    if broken_group(rec, run[3], before) then
      charge(rec[2], cls, -1)
      add_to_groups(rec, run[3], -1)
      return GANG
    end
  end
  apply_operation(run, i, cls)
  return COMMITTED
end

-- Accounts of the batch --------------------------------------------------------------------------

local verdicts, ats, tails = {}, {}, {}
local log_raws, log_verdicts, log_tails, log_dropped, log_refused = {}, {}, {}, {}, {}
local binds, task_args, task_count = {}, {}, 0
local job_dirty, nomination_dirty = {}, {}
local asked, asked_count = {}, 0  -- rows to show to the writer although they did not change

local function ask(row)
  if node[row] then
    asked_count = asked_count + 1
    asked[asked_count] = row
  end
end

-- Rows of a refused statement that are not as it believed.
local function ask_stale(runs)
  for _, run in ipairs(runs) do
    local rows, versions = run[5], run[6]
    for i = 1, #rows do
      local rec = node[rows[i]]
      if rec and rec[1] ~= versions[i] then ask(rows[i]) end
    end
  end
end

local function book_task(rec, run, i)
  local tix = run[4][i]
  if tix >= rec[5 + 3 * rec[4]] then rec[5 + 3 * rec[4]] = tix + 1 end
  task_args[task_count + 1] = run[9][i]
  task_args[task_count + 2] = spack(TASK_FORMAT, BINDING, run[5][i], run[2], 1, run[3])
  task_count = task_count + 2
end

local function book_run(s, run, nominated)
  local n = #run[4]
  if n == 0 then return end
  if run[1] ~= ALLOCATE then
    nominated[#nominated + 1] = {run[2], run[3], run[4], run[5], run[8]}
    return
  end
  local rec = job[s[1]]
  job_dirty[s[1]] = true
  mark_queue(rec[2])
  for i = 1, n do book_task(rec, run, i) end
  binds[#binds + 1] = {s[1], run[2], run[4], run[5]}
end

local function pick(run, chosen)
  local tasks, rows, levels, names = {}, {}, {}, {}
  for k, i in ipairs(chosen) do
    tasks[k], rows[k], levels[k], names[k] = run[4][i], run[5][i], run[8][i], run[9][i]
  end
  return {run[1], run[2], run[3], tasks, rows, nil, nil, levels, names}
end

local function judge_tail(index, s, nominated)
  local rec = job[s[1]]
  local told = {index}
  for _, run in ipairs(s[6]) do
    local cls, chosen = class[run[2]], {}
    for i = 1, #run[4] do
      local verdict = judge_tail_operation(rec, run, i, cls)
      told[#told + 1] = verdict
      if verdict == COMMITTED then
        chosen[#chosen + 1] = i
      else
        ask(run[5][i])
        log_refused[#log_refused + 1] = s[1]
        log_refused[#log_refused + 1] = verdict
      end
    end
    book_run(s, #chosen == #run[4] and run or pick(run, chosen), nominated)
  end
  tails[#tails + 1] = told
  return told
end

local function now()
  if ARGV[6] ~= '' then return tonumber(ARGV[6]) end
  local t = call('TIME')
  return tonumber(t[1]) + tonumber(t[2]) / 1000000
end

-- The statement's nominations take the place of all its job had, and of the displaced.
local function replace_nominations(s, nominated)
  local jid, dropped = s[1], {}
  local own = nomination[jid]
  for _, other in ipairs(s[7]) do
    if other ~= jid and nomination[other] then
      nomination[other] = nil
      nomination_dirty[other] = true
      dropped[#dropped + 1] = other
    end
  end
  if own then
    nomination[jid] = nil
    nomination_dirty[jid] = true
    dropped[#dropped + 1] = jid
  end
  if #nominated > 0 then
    nomination[jid] = {s[4], own and own[2] or now(), s[9], nominated}
    nomination_dirty[jid] = true
  end
  return dropped
end

local function refuse(index, s, verdict, at)
  verdicts[index], ats[index] = verdict, at
  log_refused[#log_refused + 1] = s[1]
  log_refused[#log_refused + 1] = verdict
  if verdict == FIT or verdict == NOMINATION or verdict == NODE_MOVED then ask(at) end
  ask_stale(s[5])
  ask_stale(s[6])
end

local function accept(index, s)
  local nominated = {}
  for _, run in ipairs(s[5]) do book_run(s, run, nominated) end
  local told = #s[6] > 0 and judge_tail(index, s, nominated)
  for _, d in ipairs(s[8]) do domain_dirty[d[1]] = true end
  local dropped = replace_nominations(s, nominated)
  local verdict = moved and RECHECKED or COMMITTED
  verdicts[index], ats[index] = verdict, -1
  local n = #log_raws + 1
  log_raws[n], log_verdicts[n] = raws[index], verdict
  if told then
    local copy = {n}
    for i = 2, #told do copy[i] = told[i] end
    log_tails[#log_tails + 1] = copy
  end
  if #dropped > 0 then log_dropped[#log_dropped + 1] = {n, dropped} end
end

local function judge(index)
  local s = statements[index]
  turn, moved, promised = index, false, {}
  local verdict, at = judge_job(s)
  if verdict == COMMITTED then
    give_back(s, -1, touch)
    verdict, at = judge_core(s)
  end
  if verdict == COMMITTED then accept(index, s) else refuse(index, s, verdict, at) end
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

local function add_asked(rows, records)
  local seen, all_rows, all_records = {}, {}, {}
  for i = 1, #rows do
    seen[rows[i]] = true
    all_rows[i], all_records[i] = rows[i], records[i]
  end
  for i = 1, asked_count do
    local row = asked[i]
    if not seen[row] then
      seen[row] = true
      local rec = node[row]
      local width = 3 + 5 * rec[3]
      all_rows[#all_rows + 1] = row
      all_records[#all_records + 1] = spack(doubles(width), unpack(rec, 1, width))
    end
  end
  return all_rows, all_records
end

local function write_all()
  local rows, records = write_nodes()
  each_chunk('HSET', TASK, task_args, task_count)
  write_jobs(job_dirty)
  write_queues()
  write_nominations(nomination_dirty)
  write_domains()
  if #raws > 0 then
    call('XADD', LOG, '*', 'p', mpack({0, writer, epoch, sequence, log_raws, log_verdicts, log_tails,
      log_dropped, log_refused, rows, records}))
  end
  if #binds > 0 then call('XADD', BINDS, '*', 'p', mpack(binds)) end
  if asked_count > 0 then rows, records = add_asked(rows, records) end
  return answer({COMMITTED, verdicts, ats, tails, rows}, records)
end

load_all()
for index = 1, #statements do judge(index) end
return write_all()
