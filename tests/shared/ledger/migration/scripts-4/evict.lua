-- Third part of the commit script: the rules by which a statement may evict.
local evict_and_place
do  -- see the prelude: local names are few
  local GUARD_GANG, GUARD_GUARANTEE = 1, 2

  -- What the victims of a run hold begins to leave (sign 1), or does not (-1).
  local function mark_leaving(run, sign, mark)
    local owner, cls, n = job[run[1]], class[run[3]], #run[5]
    if n == 0 then return end
    for _, row in ipairs(run[6]) do
      add_to_node(node[row], cls, RELEASING, sign)
      mark(row, node[row])
    end
    add_to_groups(owner, run[4], -sign * n)
    leave(owner[2], cls, sign * n)
  end

  -- The first n victims of a run are in their old states again.
  local function let_stay(run, n)
    for i = 1, n do
      local rec = victim[run[1] .. '.' .. run[5][i]]
      rec[1] = rec.before
    end
  end

  local function undo_evictions(victims, n)
    for r = 1, n do
      let_stay(victims[r], #victims[r][5])
      mark_leaving(victims[r], -1, untouch)
    end
  end

  local function may_go(rec, run, row)
    if not rec then return false end
    if rec[1] ~= BOUND and rec[1] ~= RUNNING then return false end
    if rec[2] ~= row or rec[3] ~= run[3] or rec[5] ~= run[4] then return false end
    return true
  end

  local function evict_run(run)
    local jid = run[1]
    local owner = job[jid]
    if not owner or owner[3] ~= 0 or owner[1] ~= run[2] then return JOB_MOVED, jid end
    for i, tix in ipairs(run[5]) do
      local rec = victim[jid .. '.' .. tix]
      if not may_go(rec, run, run[6][i]) then
        let_stay(run, i - 1)
        return TASK_TAKEN, tix
      end
      rec.before, rec[1] = rec[1], RELEASING_STATE
    end
    mark_leaving(run, 1, touch)
    return COMMITTED, -1
  end

  -- The first group that comes to stand between 0 and its minimum, or stays there.
  local function broken_group(run)
    local rec, group = job[run[1]], run[4]
    while group >= 0 do
      local b = 5 + 3 * group
      if rec[b + 2] > 0 and rec[b + 2] < rec[b + 1] then return group end
      group = rec[b]
    end
    return nil
  end

  -- Whether what stays used of a slot is less than is guaranteed; `b`: where the slot begins.
  local function below_guarantee(rec, b)
    local high, low = rec[b] - rec[b + LEAVING], rec[b + 1] - rec[b + LEAVING + 1]
    if low < 0 then high, low = high - 1, low + LIMB end
    local kept = rec[b + GUARANTEED]
    return high < kept or (high == kept and low < rec[b + GUARANTEED + 1])
  end

  -- The first queue, from the victims' up, that keeps less than is guaranteed to it.
  local function robbed_queue(run)
    local qid = job[run[1]][2]
    while qid >= 0 and queue[qid] do
      local rec = queue[qid]
      for b = 3, 2 + QUEUE_WIDTH * rec[2], QUEUE_WIDTH do
        if below_guarantee(rec, b) then return qid end
      end
      qid = rec[1]
    end
    return nil
  end

  local function judge_guards(victims, guards)
    if guards % (2 * GUARD_GANG) >= GUARD_GANG then
      for _, run in ipairs(victims) do
        local group = broken_group(run)
        if group then return GANG, group end
      end
    end
    if guards % (2 * GUARD_GUARANTEE) >= GUARD_GUARANTEE then
      for _, run in ipairs(victims) do
        local qid = robbed_queue(run)
        if qid then return QUEUE_FULL, qid end
      end
    end
    return COMMITTED, -1
  end

  local function judge_evictions(victims, guards)
    for r, run in ipairs(victims) do
      local verdict, at = evict_run(run)
      if verdict ~= COMMITTED then
        undo_evictions(victims, r - 1)
        return verdict, at
      end
    end
    local verdict, at = judge_guards(victims, guards)
    if verdict ~= COMMITTED then undo_evictions(victims, #victims) end
    return verdict, at
  end

  -- The core of a statement, after its evictions: what they release, it may be promised.
  function evict_and_place(extra, rec, first, last, domains)
    local victims = extra and extra[5]
    if not victims then return judge_core(rec, first, last, domains) end
    local verdict, at = judge_evictions(victims, extra[6])
    if verdict ~= COMMITTED then return verdict, at end
    verdict, at = judge_core(rec, first, last, domains)
    if verdict ~= COMMITTED then undo_evictions(victims, #victims) end
    return verdict, at
  end
end
