-- Last part of the commit script: judge every statement, keep the accounts, then write.

-- Accounts of the batch ------------------------------------------------------------------------

local verdicts, ats, tails, dropped = {}, {}, {}, {}
local binds, bind_count, task_args, task_count = {}, 0, {}, 0
local lives, evicts = {}, {}  -- for the binder: incarnations of what was evicted before; evictions
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

local book, book_evictions
do
  local function book_task(jid, rec, o, cid, group)
    local top = 5 + 3 * rec[4]
    if tasks[o] >= rec[top] then rec[top] = tasks[o] + 1 end
    local old = reborn and reborn[names[o]]
    task_args[task_count + 1] = names[o]
    task_args[task_count + 2] = old
      and pack_task(jid, tasks[o], BINDING, rows[o], cid, old[4] + 1, group, old.life, -1, '')
      or pack_task(jid, tasks[o], BINDING, rows[o], cid, 1, group)
    task_count = task_count + 2
    if old then
      local n = #lives
      lives[n + 1], lives[n + 2], lives[n + 3] = jid, tasks[o], old.life
    end
  end

  function book_evictions(by, run, reason)
    local jid, told = run[1], {}
    local owner = job[jid]
    job_dirty[jid] = true
    mark_queue(owner[2])
    for i, tix in ipairs(run[5]) do
      local name = jid .. '.' .. tix
      local rec = victim[name]
      rec[4], rec.life, rec.by, rec.why = rec[4] + 1, rec.life or 0, by, reason
      told[i] = rec.life
      task_args[task_count + 1] = name
      task_args[task_count + 2] = pack_task(jid, tix, rec[1], rec[2], rec[3], rec[4], rec[5],
        rec.life, by, reason)
      task_count = task_count + 2
    end
    if #told > 0 then evicts[#evicts + 1] = {jid, by, reason, run[5], run[6], told} end
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
  function book(jid, rec, k, chosen, nominated)
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
      book_task(jid, rec, o, cid, group)
    end
    bind_count = bind_count + n
    for i = 1, n do binds[bind_count + i] = rows[chosen and chosen[i] or first + i - 1] end
    bind_count = bind_count + n
    return nominated
  end
end

-- The tail -------------------------------------------------------------------------------------

local judge_tail
do
  local function judge_tail_operation(rec, o, kind, cls, group)
    local verdict = judge_operation(o, kind, cls)
    if verdict ~= COMMITTED then return verdict end
    if kind == ALLOCATE then
      if charge(rec[2], cls, 1) then
        charge(rec[2], cls, -1)
        return QUEUE_FULL
      end
      if not cls.best_effort and join_group(rec, group, 1) then
        charge(rec[2], cls, -1)
        return GANG
      end
    end
    apply_operation(o, kind, cls)
    return COMMITTED
  end

  function judge_tail(index, jid, rec, first, last, nominated)
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
  local extra = extras[index]
  for _, run in ipairs(extra and extra[5] or NONE) do book_evictions(jid, run, extra[7]) end
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
  verdict, at = evict_and_place(extra, rec, first, tail - 1, domains)
  if verdict == COMMITTED then return accept(index, jid, rec, first, tail, displaced, domains) end
  give_back(jid, displaced, 1, untouch)
  refuse(index, verdict, at)
end

-- Write ------------------------------------------------------------------------------------------

local write_all
do
  local function write_domains()
    local args, n = {}, 0
    for name in pairs(domain_dirty) do
      args[n + 1], args[n + 2] = name, sealed(spack('<d', domain[name]))
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

  function write_all()
    local touched, records = write_nodes()
    each_chunk('HSET', TASK, task_args, task_count)
    write_jobs(job_dirty)
    write_queues()
    write_nominations(nomination_dirty)
    write_domains()
    local logged
    local packed = pack_records(records)
    if statement_count > 0 then
      logged = tell(LOG, {0, writer, epoch, sequence, ARGV[5], verdicts, tails, dropped, touched}, packed)
    end
    if bind_count > 0 or #evicts > 0 then tell(BINDS, {binds, lives, evicts}) end
    if asked_count > 0 then
      touched, records = add_asked(touched, records)
      packed = pack_records(records)
    end
    return answer({COMMITTED, verdicts, ats, tails, touched}, packed, logged)
  end
end

read_batch()
collect()
load_owners()
load_holders()
load_nodes()
load_classes()
load_tasks()
load_victims()
load_domains()
for index = 1, statement_count do judge(index) end
return write_all()
