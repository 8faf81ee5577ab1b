-- Second part of the commit script: the rules by which a statement's core stands or falls.

-- One operation --------------------------------------------------------------------------------

local promised, moved  -- of the statement being judged: tasks it nominated; saw an old version

-- COMMITTED where the request fits; FIT goes before NOMINATION.
local function misfit(row, cls, kind, devices)
  local rec = node[row]
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
    -- Both kinds are held to what will be idle, less what is promised. An allocation needs the room
    -- now as well: what is leaving does not count for it.
    if kind == ALLOCATE and idle > capacity then return FIT end
    if future > capacity then verdict = NOMINATION end
  end
  if cls.things then
    local word = named.misfit(row, cls, kind == ALLOCATE)
    if word == FIT then return FIT end
    if word ~= COMMITTED then verdict = NOMINATION end
  end
  if not devices then return verdict end
  local word = named.misfit(row, named.devices(devices), kind == ALLOCATE)
  return word == COMMITTED and verdict or word
end

local function judge_operation(o, kind, cls, devices)
  local name = names[o]
  -- Placed meanwhile, by an earlier batch (a turn that was given out again after a lost worker) or
  -- earlier in this one.
  if taken[name] or (promised and promised[name]) then return TASK_TAKEN, tasks[o] end
  local row = rows[o]
  local rec = node[row]
  -- Another specification may have other labels and taints: that it still fits by amounts says
  -- nothing.
  if not rec or rec[2] ~= specs[o] then return NODE_MOVED, row end
  return misfit(row, cls, kind, devices), row
end

local function apply_operation(o, kind, cls, devices)
  local row = rows[o]
  local rec = node[row]
  -- A statement moves the version of each row once, whatever it places there: from its second
  -- operation on a row the version that the worker saw is the one before.
  if stamp[row] == turn then
    if versions[o] ~= rec[1] - 1 then moved = true end
  else
    if versions[o] ~= rec[1] then moved = true end
    stamp[row] = turn
    rec[1] = rec[1] + 1
  end
  if kind == ALLOCATE then
    taken[names[o]] = true
    add_to_node(row, cls, USED, 1, devices)
  else
    promised = promised or {}
    promised[names[o]] = true
    add_to_node(row, cls, NOMINATED, 1, devices)
  end
end

local function undo_operation(o, kind, cls, devices)
  local row = rows[o]
  local rec = node[row]
  if kind == ALLOCATE then
    taken[names[o]] = nil
    add_to_node(row, cls, USED, -1, devices)
  else
    add_to_node(row, cls, NOMINATED, -1, devices)
  end
  untouch(row, rec)
end

-- Groups ---------------------------------------------------------------------------------------

-- Add n members to a group and those above it. Returns the first that would come to stand between
-- 0 and its minimum and did not before; then nothing is added. (Members are only added here, so what
-- is below its minimum now was not above it before.) A statement may say that its job may be in part.
local function join_group(rec, group, n)
  add_to_groups(rec, group, n)
  local above = group
  while above >= 0 do
    if rec[7 + 3 * above] <= n and lacks(rec, above) and not (extras[turn] or NONE)[7] then
      add_to_groups(rec, group, -n)
      return above
    end
    above = rec[5 + 3 * above]
  end
  return nil
end

local give_back, judge_rank, judge_job, judge_core
do
  -- Members that ask for nothing are there already.
  local function joins(r)
    return runs[r + 1] == ALLOCATE and runs[r + 4] > 0 and not class[runs[r + 2]].best_effort
  end

  local function each_allocation(first, last, act)
    for k = first, last do
      local r = 4 * k - 4
      if joins(r) then
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
      if not joins(r) then return nil end
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
    local broken = not (extras[turn] or NONE)[7] and each_allocation(first, last, function(group)
      while group >= 0 do
        if before[group] <= 0 and lacks(rec, group) then return group end
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

  function give_back(jid, displaced, sign, mark)
    if nomination[jid] then shift_nomination(nomination[jid], sign, mark) end
    for _, other in ipairs(displaced) do
      if other ~= jid and nomination[other] then shift_nomination(nomination[other], sign, mark) end
    end
  end

  function judge_rank(jid, priority, displaced)
    local seen = {}
    for _, other in ipairs(displaced) do
      if seen[other] then reject('job ' .. jid .. ': displaced names job ' .. other .. ' twice') end
      seen[other] = true
      local held = nomination[other]
      if other ~= jid and held and held[1] >= priority then return RANK, other end
    end
    return COMMITTED, -1
  end

  function judge_job(index, jid)
    local h, rec = 6 * index - 6, job[jid]
    -- Deleted, stored anew or in another queue since the turn was made: what was placed may not be
    -- what is asked for now.
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
    -- Has not moved since the excerpt was made; else somebody placed a member of the same term,
    -- volume or claim on a view without ours (decision 0029).
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
        undo_operation(o, kind, cls, devices_of[k])
      end
    end
  end

  local function place_core(first, last)
    for k = first, last do
      local r = 4 * k - 4
      local kind, cls = runs[r + 1], class[runs[r + 2]]
      for o = first_op[k], first_op[k + 1] - 1 do
        local verdict, at = judge_operation(o, kind, cls, devices_of[k])
        if verdict ~= COMMITTED then
          undo_operations(first, k, o - 1)
          return verdict, at
        end
        apply_operation(o, kind, cls, devices_of[k])
      end
    end
    return COMMITTED, -1
  end

  function judge_core(rec, first, last, domains)
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
end
