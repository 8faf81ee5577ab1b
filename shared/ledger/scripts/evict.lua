-- Third part of the commit script: the rules by which a statement may evict.
local evict_and_place
do  -- see the prelude: local names are few
  local GUARD_GANG, GUARD_GUARANTEE, GUARD_REST, GUARD_WHOLE, NOMINATE = 1, 2, 4, 2^30, 1

  local function is_guarded(run, guard)
    return run[7] % (2 * guard) >= guard
  end

  -- What the victims of a run hold begins to leave (sign 1), or does not (-1).
  local function mark_leaving(run, sign, mark)
    local owner, cls, n = job[run[1]], class[run[3]], #run[5]
    if n == 0 then return end
    for i, row in ipairs(run[6]) do
      add_to_node(row, cls, RELEASING, sign, victim[run[1] .. '.' .. run[5][i]].devices)
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
    -- Another statement may have evicted it first, or it has ended; one that is BINDING is between
    -- ledger and cluster, and an eviction could overtake the bind.
    if rec[1] ~= BOUND and rec[1] ~= RUNNING then return false end
    -- Evicted, and placed anew: a later incarnation is not the victim that the rules agreed to.
    if rec[2] ~= row or rec[3] ~= run[3] or rec[5] ~= run[4] then return false end
    return true
  end

  local function evict_run(run)
    local jid = run[1]
    local owner = job[jid]
    -- The worker judged the victims by this specification: another one may have other minima.
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

  -- The first group that comes to stand between 0 and its minimum, or stays there. Members that
  -- have ended count still: what is left may be those that the worker knows of, and nobody who was
  -- placed since (decision 34). Of a job that leaves as one, nobody else stays.
  local function broken_group(run)
    local rec, group, rest = job[run[1]], run[4], floor(run[7] % GUARD_WHOLE / GUARD_REST)
    local whole = is_guarded(run, GUARD_WHOLE)
    while group >= 0 do
      if rec[7 + 3 * group] > rest and (whole or lacks(rec, group)) then return group end
      group = rec[5 + 3 * group]
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

  -- After all victims of the statement have left: several runs may be of one gang, or queue.
  local function judge_guards(victims)
    for _, run in ipairs(victims) do
      local is_gang = is_guarded(run, GUARD_GANG) or is_guarded(run, GUARD_WHOLE)
      local group = is_gang and broken_group(run)
      if group then return GANG, group end
    end
    for _, run in ipairs(victims) do
      local qid = is_guarded(run, GUARD_GUARANTEE) and robbed_queue(run)
      if qid then return QUEUE_FULL, qid end
    end
    return COMMITTED, -1
  end

  -- The first n promises of a run that moves are taken back.
  local function unpromise(run, n)
    local cls = class[run[3]]
    for i = 1, n do
      local row = run[8][i]
      add_to_node(row, cls, NOMINATED, -1, run[11])
      untouch(row, node[row])
    end
  end

  local function undo_moves(victims, n)
    for r = 1, n do
      if victims[r][8] then unpromise(victims[r], #victims[r][8]) end
    end
  end

  -- The new places of one run, of the class that its victims had. Each takes room from the next.
  local function promise_run(run)
    local cls = class[run[3]]
    if nomination[run[1]] then return TASK_TAKEN, run[5][1] end
    for i, row in ipairs(run[8]) do
      local rec, verdict = node[row], NODE_MOVED
      if rec and rec[2] == run[9][i] then verdict = misfit(row, cls, NOMINATE, run[11]) end
      if verdict ~= COMMITTED then
        unpromise(run, i - 1)
        return verdict, row
      end
      touch(row, rec)
      add_to_node(row, cls, NOMINATED, 1, run[11])
    end
    return COMMITTED, -1
  end

  local function promise_moves(victims)
    for r, run in ipairs(victims) do
      if run[8] then
        local verdict, at = promise_run(run)
        if verdict ~= COMMITTED then
          undo_moves(victims, r - 1)
          return verdict, at
        end
      end
    end
    return COMMITTED, -1
  end

  local function judge_evictions(victims)
    for r, run in ipairs(victims) do
      local verdict, at = evict_run(run)
      if verdict ~= COMMITTED then
        undo_evictions(victims, r - 1)
        return verdict, at
      end
    end
    local verdict, at = judge_guards(victims)
    if verdict == COMMITTED then verdict, at = promise_moves(victims) end
    if verdict ~= COMMITTED then undo_evictions(victims, #victims) end
    return verdict, at
  end

  -- The core of a statement, after its evictions: what they release, it may be promised.
  function evict_and_place(extra, rec, first, last, domains)
    local victims = extra and extra[5]
    if not victims then return judge_core(rec, first, last, domains) end
    local verdict, at = judge_evictions(victims)
    if verdict ~= COMMITTED then return verdict, at end
    verdict, at = judge_core(rec, first, last, domains)
    if verdict ~= COMMITTED then
      undo_moves(victims, #victims)
      undo_evictions(victims, #victims)
    end
    return verdict, at
  end
end
