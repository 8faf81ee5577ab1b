-- Second part of the commit script: the rules by which a statement's core stands or falls.

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
