-- Last part of the commit script: judge every statement, keep the accounts, then write.

-- Accounts of the batch ------------------------------------------------------------------------

local verdicts, ats, tails, dropped = {}, {}, {}, {}
local binds, bind_count, task_args, task_count = {}, 0, {}, 0
-- For the binder: incarnations of what was evicted before; evictions; devices (jid, tix, devices).
local incarnations, evicts, assigned = {}, {}, {}
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
  local function book_task(jid, rec, o, cid, group, devices)
    local top = 5 + 3 * rec[4]
    if tasks[o] >= rec[top] then rec[top] = tasks[o] + 1 end
    local old = reborn and reborn[names[o]]
    task_args[task_count + 1] = names[o]
    task_args[task_count + 2] = old
      and pack_task(jid, tasks[o], BINDING, rows[o], cid, old[4] + 1, group, old.incarnation, -1, '', devices)
      or pack_task(jid, tasks[o], BINDING, rows[o], cid, 1, group, nil, nil, nil, devices)
    task_count = task_count + 2
    if old then
      local n = #incarnations
      incarnations[n + 1], incarnations[n + 2], incarnations[n + 3] = jid, tasks[o], old.incarnation
    end
    if devices then
      local n = #assigned
      assigned[n + 1], assigned[n + 2], assigned[n + 3] = jid, tasks[o], devices
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
      rec[4], rec.incarnation, rec.by, rec.why = rec[4] + 1, rec.incarnation or 0, by, reason
      told[i] = rec.incarnation
      task_args[task_count + 1] = name
      task_args[task_count + 2] = pack_task(jid, tix, rec[1], rec[2], rec[3], rec[4], rec[5],
        rec.incarnation, by, reason, rec.devices)
      task_count = task_count + 2
    end
    if #told > 0 then evicts[#evicts + 1] = {jid, by, reason, run[5], run[6], told, run[8]} end
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
        {cid, group, pick(tasks, k, chosen), pick(rows, k, chosen), pick(levels, k, chosen), devices_of[k]}
      return nominated
    end
    job_dirty[jid] = true
    mark_queue(rec[2])
    binds[bind_count + 1], binds[bind_count + 2], binds[bind_count + 3] = jid, cid, n
    bind_count = bind_count + 3
    for i = 1, n do
      local o = chosen and chosen[i] or first + i - 1
      binds[bind_count + i] = tasks[o]
      book_task(jid, rec, o, cid, group, devices_of[k])
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
  local function judge_tail_operation(rec, o, kind, cls, group, devices)
    local verdict = judge_operation(o, kind, cls, devices)
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
    apply_operation(o, kind, cls, devices)
    return COMMITTED
  end

  function judge_tail(index, jid, rec, first, last, nominated)
    local told = {index}
    for k = first, last do
      local r = 4 * k - 4
      local kind, cls, group, chosen = runs[r + 1], class[runs[r + 2]], runs[r + 3], {}
      for o = first_op[k], first_op[k + 1] - 1 do
        local verdict = judge_tail_operation(rec, o, kind, cls, group, devices_of[k])
        told[#told + 1] = verdict
        -- Each for itself: an elastic task that lost its node takes none of the others with it.
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
    -- The time since when the job waits stays that of its first nomination: it decides between
    -- equal priorities, and each renewal would put the job last.
    nomination[jid] = {heads[6 * index - 2], own and own[2] or now(), extra and extra[4] or 0,
      nominated}
    nomination_dirty[jid] = true
  end
  if #ended > 0 then dropped[#dropped + 1] = {index, ended} end
end

local accept
do
  local FUTURE_OTHER = 4  -- level of the places that tasks move to

  -- The promises of those that move, for their own jobs, which had none.
  local function promise_to_victims(victims, expiry)
    local moving = {}
    for _, run in ipairs(victims) do
      if run[8] then
        local runs, four = moving[run[1]], {}
        if not runs then
          runs = {}
          moving[run[1]] = runs
          nomination[run[1]] = {run[10], now(), expiry, runs}
          nomination_dirty[run[1]] = true
        end
        for i = 1, #run[5] do four[i] = FUTURE_OTHER end
        runs[#runs + 1] = {run[3], run[4], run[5], run[8], four, run[11]}
      end
    end
  end

  function accept(index, jid, rec, first, tail, displaced, domains)
    local nominated, last = nil, first_run[index + 1] - 1
    local extra = extras[index]
    for _, run in ipairs(extra and extra[5] or NONE) do book_evictions(jid, run, extra[6]) end
    if extra and extra[5] then promise_to_victims(extra[5], extra[4]) end
    for k = first, tail - 1 do nominated = book(jid, rec, k, nil, nominated) end
    if tail <= last then nominated = judge_tail(index, jid, rec, tail, last, nominated) end
    for _, d in ipairs(domains) do domain_dirty[d[1]] = true end
    if #displaced > 0 or nominated or nomination[jid] then
      replace_nominations(index, jid, displaced, nominated)
    end
    verdicts[index] = moved and RECHECKED or COMMITTED
  end
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
  -- What the job and those that it displaces were promised is free for this statement alone;
  -- refused, it leaves every promise as it was.
  give_back(jid, displaced, -1, touch)
  verdict, at = evict_and_place(extra, rec, first, tail - 1, domains)
  if verdict == COMMITTED then return accept(index, jid, rec, first, tail, displaced, domains) end
  give_back(jid, displaced, 1, untouch)
  refuse(index, verdict, at)
end

-- Write ------------------------------------------------------------------------------------------

local write_all
do
  local function plan_domains()
    local args, n = {}, 0
    for name in pairs(domain_dirty) do
      args[n + 1], args[n + 2] = name, sealed(spack('<d', domain[name]))
      n = n + 2
    end
    plan_chunks('HSET', DOMAIN, args, n)
  end

  local function add_asked(touched, records)
    local seen, all_rows, all_records, n = {}, {}, {}, #touched
    for i = 1, n do
      seen[touched[i]] = true
      all_rows[i], all_records[i] = touched[i], records[i]
    end
    local unmoved, count = {}, 0
    for i = 1, asked_count do
      local row = asked[i]
      if not seen[row] and node[row] then
        seen[row] = true
        count = count + 1
        unmoved[count] = row
      end
    end
    -- As they are stored: here a refused statement may have left them with more slots, and a version
    -- is of one record.
    local stored = fetch(NODE, unmoved, count)
    for i = 1, count do all_rows[n + i], all_records[n + i] = unmoved[i], stored[i] end
    return all_rows, all_records
  end

  -- What operations name on the rows that are shown to the writer although they did not change: of
  -- other rows it sees what moved.
  local function asked_things()
    local on, wanted = {}, {}
    for i = 1, asked_count do on[asked[i]] = true end
    for k = 1, run_count do
      local cls = class[runs[4 * k - 2]]
      local own = cls and cls.things or NONE
      local devices = cls and devices_of[k] and named.devices(devices_of[k]).things or NONE
      for o = first_op[k], #own + #devices > 0 and first_op[k + 1] - 1 or -1 do
        for _, things in ipairs(on[rows[o]] and {own, devices} or NONE) do
          for _, t in ipairs(things) do wanted[#wanted + 1] = {rows[o], t} end
        end
      end
    end
    return wanted
  end

  function write_all()
    local touched, records = moved_nodes()
    local things = named.moved(version_of)
    local packed = pack_records(records, things)
    if statement_count > 0 then
      local entry = {0, writer, epoch, sequence, ARGV[5], verdicts, tails, dropped, touched}
      plan_entry(LOG, entry, packed)
    end
    if bind_count > 0 or #evicts > 0 then
      plan_entry(BINDS, {binds, incarnations, evicts, #assigned > 0 and assigned or nil})
    end
    plan_nodes(touched, records)
    named.plan()
    plan_chunks('HSET', TASK, task_args, task_count)
    plan_jobs(job_dirty)
    plan_queues()
    plan_nominations(nomination_dirty)
    plan_domains()
    if asked_count > 0 then
      touched, records = add_asked(touched, records)
      packed = pack_records(records, named.shown(things, asked_things(), version_of))
    end
    return write_and_answer({COMMITTED, verdicts, ats, tails, touched}, packed)
  end
end

load_all()
for index = 1, statement_count do judge(index) end
return write_all()
