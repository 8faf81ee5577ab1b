-- What became of tasks: state changes that free or mark capacity, and nominations that expired.
-- ARGV = writer, epoch, sequence, run id, packed {items, expired}; an item is {state, jid, tasks, rows},
-- or {state, jid, tasks, rows, class, group, devices}: the cluster has these tasks there, whatever is
-- known here, each with these devices, packed (no 7th where they have none); where the state is FAILED:
-- what those of them are that are not placed; or {0, jid, tasks, rows, incarnations}: these have ended,
-- and begin anew as the next ones.
local early = gate()
if early then return early end

local items, expired = unpack(munpack(ARGV[5]))
local fields, field_count = {}, 0
local names_of = {}  -- field -> {jid, tix}
local task = {}  -- field -> a record, as read_task gives it
-- Fields of tasks that may leave, come or end. Of others, on their way to running, nothing but the record is
-- read: neither their job nor what they hold changes.
local moves = {}
local task_dirty, job_dirty, nomination_dirty = {}, {}, {}

-- allowed[target][current]
local allowed = {
  [0] = {[BINDING] = true},
  [BOUND] = {[BINDING] = true},
  [RUNNING] = {[BINDING] = true, [BOUND] = true},
  [RELEASING_STATE] = {[BINDING] = true, [BOUND] = true, [RUNNING] = true},
}
allowed[SUCCEEDED] =
  {[BINDING] = true, [BOUND] = true, [RUNNING] = true, [RELEASING_STATE] = true}
allowed[FAILED] = allowed[SUCCEEDED]
allowed[LOST] = allowed[SUCCEEDED]

local function load_tasks()
  local values = fetch(TASK, fields, field_count)
  for i = 1, field_count do
    if values[i] then
      local rec = read_task(values[i], unpack(names_of[fields[i]]))
      task[fields[i]] = rec
      if moves[fields[i]] then
        want_class(rec[3])
        want_row(rec[2])
      end
    end
  end
end

-- An item that adopts names the rows and the class it needs itself.
local function want_adopted(item)
  want_class(item[5])
  if item[1] == FAILED then return end
  if item[1] < BOUND or item[1] > RELEASING_STATE then
    reject('status item of job ' .. item[2] .. ': adopted tasks are bound, running or releasing')
  end
  if item[7] then named.check('status item of job ' .. item[2], munpack(item[7]), 1) end
  for _, row in ipairs(item[4]) do want_row(row) end
end

local function check_restart(item)
  if item[1] ~= 0 or type(item[5]) ~= 'table' or #item[5] ~= #item[3] then
    reject('status item of job ' .. item[2] .. ': tasks begin anew as pending, each after an incarnation')
  end
end

local function load_all()
  local jids, n, seen = {}, 0, {}
  for _, item in ipairs(items) do
    local jid, names = item[2], {}
    local moving = item[5] or item[1] ~= BOUND and item[1] ~= RUNNING
    if not allowed[item[1]] or #item[3] ~= #item[4] then
      reject('status item of job ' .. jid .. ': unknown state, or tasks and rows differ in length')
    end
    for i, tix in ipairs(item[3]) do
      if tix < 0 or tix ~= floor(tix) then
        reject('status item of job ' .. jid .. ': ' .. tix .. ' is no number of a task')
      end
      names[i] = jid .. '.' .. tix
      field_count = field_count + 1
      fields[field_count] = names[i]
      names_of[names[i]] = {jid, tix}
      if moving then moves[names[i]] = true end
    end
    item.names = names
    item.restarts = #item == 5
    if item.restarts then
      check_restart(item)
    elseif item[5] then
      want_adopted(item)
    end
    if moving and not seen[jid] then
      seen[jid] = true
      n = n + 1
      jids[n] = jid
    end
  end
  load_jobs(jids, n)
  load_nominations(expired, #expired)
  local qids = {}
  for i = 1, n do qids[i] = job[jids[i]] and job[jids[i]][2] or -1 end
  load_queues(qids, n)
  load_tasks()
  load_nodes()
  load_classes()
end

-- A task that is not placed is deleted: it gets its final record, and one that asks for nothing
-- leaves its group.
local function fail_pending(name, jid, tix, cid, group)
  local known, rec = task[name], job[jid]
  if known then
    cid, group = known[3], known[5]
    known[1], known[4] = FAILED, known[4] + 1
  elseif cid and class[cid] and group < rec[4] then
    task[name] = {FAILED, 0, cid, 1, group}
  else
    cid, task[name] = nil, {FAILED, 0, 0, 1, 0}
  end
  if cid and class[cid].best_effort then
    add_to_groups(rec, group, -1)
    job_dirty[jid] = true
  end
  if tix >= rec[5 + 3 * rec[4]] then
    rec[5 + 3 * rec[4]] = tix + 1
    job_dirty[jid] = true
  end
end

local left = {}  -- qid -> cid -> how many of its tasks more are leaving

local function begin_leaving(qid, cid, n)
  if not left[qid] then left[qid] = {} end
  left[qid][cid] = (left[qid][cid] or 0) + n
end

local function count_leaving()
  for qid, of in pairs(left) do
    for cid, n in pairs(of) do leave(qid, class[cid], n) end
    mark_queue(qid)
  end
end

local function is_evicted(rec)
  return rec.by and rec.by >= 0
end

-- `members`: by how many its group grows.
local function free(rec, jid, members)
  local cls, row, owner = class[rec[3]], rec[2], job[jid]
  add_to_node(row, cls, USED, -1, rec.devices)
  if rec[1] == RELEASING_STATE then
    add_to_node(row, cls, RELEASING, -1, rec.devices)
    begin_leaving(owner[2], rec[3], -1)
  end
  touch(row, node[row])
  charge(owner[2], cls, -1)
  mark_queue(owner[2])
  if members ~= 0 then
    add_to_groups(owner, rec[5], members)
    job_dirty[jid] = true
  end
end

-- What an end does to the group: who was evicted left it then, and comes back where it ended well.
-- What asks for nothing is a member while it is pending, too.
local function members_after(rec, state)
  local before = is_evicted(rec) and 0 or 1
  local stays = state == SUCCEEDED or (state == 0 and class[rec[3]].best_effort)
  return (stays and 1 or 0) - before
end

-- The task is where the cluster has it: what it held elsewhere is given back, what it holds there is
-- counted, also beyond what the node offers. What has ended stays so. True where that changed anything.
local function adopt(state, jid, tix, row, name, cid, group, devices)
  local rec, owner = task[name], job[jid]
  local held = rec and rec[1] ~= 0 and rec[1] <= RELEASING_STATE
  if rec and rec[1] ~= 0 and (not held or rec[2] == row) then return false end
  if not owner or not node[row] then return false end
  local by, why = rec and rec.by, rec and rec.why
  if held then
    cid, group = rec[3], rec[5]
    local stays = is_evicted(rec) and state ~= RELEASING_STATE
    free(rec, jid, stays and 1 or 0)
    if stays then by, why = -1, '' end
  elseif not class[cid] or group >= owner[4] then
    return false
  else
    if not class[cid].best_effort then add_to_groups(owner, group, 1) end
    if tix >= owner[5 + 3 * owner[4]] then owner[5 + 3 * owner[4]] = tix + 1 end
    job_dirty[jid] = true
  end
  add_to_node(row, class[cid], USED, 1, devices)
  if state == RELEASING_STATE then
    add_to_node(row, class[cid], RELEASING, 1, devices)
    begin_leaving(owner[2], cid, 1)
  end
  touch(row, node[row])
  charge(owner[2], class[cid], 1)
  mark_queue(owner[2])
  task[name] = {state, row, cid, rec and rec[4] + 1 or 1, group,
    incarnation = rec and rec.incarnation, by = by, why = why, devices = devices}
  return true
end

-- A task is on no node any more, or never came to be. What was evicted is another incarnation then,
-- if it is to be placed again.
local function finish(state, rec, jid, name)
  local evicted = is_evicted(rec)
  free(rec, jid, members_after(rec, state))
  if evicted then
    rec.by, rec.why = -1, ''
    if state == 0 then rec.incarnation = rec.incarnation + 1 end
  end
  if state == 0 then
    rec.devices = nil
    if not rec.incarnation then task[name] = nil end
  end
end

-- True where the change happened.
local function change(state, jid, tix, row, name, cid, group)
  local rec = task[name]
  if not rec or rec[1] == 0 then
    if state ~= FAILED or not job[jid] then return false end
    fail_pending(name, jid, tix, cid, group)
    return true
  end
  -- About an earlier placement: the task has been freed and placed elsewhere since.
  if rec[2] ~= row then return false end
  if not allowed[state][rec[1]] and not (state == 0 and is_evicted(rec)) then return false end
  if state == RELEASING_STATE then
    add_to_node(row, class[rec[3]], RELEASING, 1, rec.devices)
    touch(row, node[row])
    begin_leaving(job[jid][2], rec[3], 1)
  elseif state == 0 or state >= SUCCEEDED then
    finish(state, rec, jid, name)
  end
  rec[1], rec[4] = state, rec[4] + 1
  return true
end

-- A task that has ended begins anew: pending, as the next incarnation. Named by the one that ended, so
-- that what comes late or twice cannot put an end to the next one.
local function restart(_, jid, _, _, name, incarnations, _, _, i)
  local rec, owner, incarnation = task[name], job[jid], incarnations[i]
  if not rec or rec[1] < SUCCEEDED or (rec.incarnation or 0) ~= incarnation then return false end
  if owner[3] ~= 0 or not class[rec[3]] then return false end
  local members = (class[rec[3]].best_effort and 1 or 0) - (rec[1] == SUCCEEDED and 1 or 0)
  if members ~= 0 then
    add_to_groups(owner, rec[5], members)
    job_dirty[jid] = true
  end
  rec[1], rec[4] = 0, rec[4] + 1
  rec.incarnation, rec.by, rec.why, rec.devices = incarnation + 1, -1, '', nil
  return true
end

local applied, log_items = {}, {}

local function judge(index)
  turn = index
  local item = items[index]
  local state, jid, tasks, rows, names = item[1], item[2], item[3], item[4], item.names
  local move = item.restarts and restart or item[5] and state ~= FAILED and adopt or change
  local done, at = {}, {}
  for i = 1, #tasks do
    if move(state, jid, tasks[i], rows[i], names[i], item[5], item[6], item[7], i) then
      task_dirty[names[i]] = true
      done[#done + 1] = tasks[i]
      at[#at + 1] = rows[i]
    end
  end
  applied[index] = done
  local adopted = item.restarts and {} or item
  if #done > 0 then
    log_items[#log_items + 1] = {state, jid, done, at, adopted[5], adopted[6], adopted[7]}
  end
end

local function judge_expired()
  local ended = {}
  turn = #items + 1
  for _, jid in ipairs(expired) do
    local held = nomination[jid]
    if held then
      shift_nomination(held, -1, touch)
      nomination[jid] = nil
      nomination_dirty[jid] = true
      ended[#ended + 1] = jid
    end
  end
  return ended
end

local function pack_name(name, rec)
  local jid, tix = unpack(names_of[name])
  return pack_task(jid, tix, rec[1], rec[2], rec[3], rec[4], rec[5], rec.incarnation, rec.by, rec.why,
    rec.devices)
end

local function plan_tasks()
  local args, n, gone, m = {}, 0, {}, 0
  for name in pairs(task_dirty) do
    local rec = task[name]
    if rec then
      args[n + 1], args[n + 2] = name, pack_name(name, rec)
      n = n + 2
    else
      m = m + 1
      gone[m] = name
    end
  end
  plan_chunks('HSET', TASK, args, n)
  plan_chunks('HDEL', TASK, gone, m)
end

load_all()
for index = 1, #items do judge(index) end
local ended = judge_expired()
count_leaving()
local rows, moved = moved_nodes()
local records = pack_records(moved, named.moved(version_of))
if #log_items > 0 or #ended > 0 then
  plan_entry(LOG, {1, writer, epoch, sequence, log_items, ended, rows}, records)
end
plan_nodes(rows, moved)
named.plan()
plan_tasks()
plan_jobs(job_dirty)
plan_queues()
plan_nominations(nomination_dirty)
return write_and_answer({COMMITTED, applied, rows}, records)
