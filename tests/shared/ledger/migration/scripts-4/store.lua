-- Accepted objects. ARGV = writer, epoch, sequence, run id, packed list of operations, packed flat
-- list of documents (key, bytes or false).
-- An operation is an array that begins with its kind; slots and groups come as flat lists, limits of
-- queues as (slot, high limb, low limb).
local PUT_CLASS, PUT_NODE, DROP_NODE, OBSERVE, PUT_QUEUE, PUT_JOB, DROP_JOB, PUT_OBJECT,
  PUT_PARTITION, DROP_QUEUE, PURGE_JOB = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11

local early = gate()
if early then return early end

local ops, documents = munpack(ARGV[5]), munpack(ARGV[6])
local class_raw, class_new = {}, {}
local specs = {[NODESPEC] = {}, [QUEUESPEC] = {}, [JOBSPEC] = {}, [OBJECT] = {}}
local job_dirty, nomination_dirty, dropped = {}, {}, {}
local job_tasks = {}  -- jid -> task records of a job that changes its queue or is forgotten
local job_gone, queue_gone = {}, {}
local task_gone, task_gone_count = {}, 0
local partition, implied_dirty

-- Form -------------------------------------------------------------------------------------------

local N, T, S, ANY = 'number', 'table', 'string', 'any'
-- What follows the kind in an operation; ANY: bytes, a list, or false for none.
local shapes = {
  [PUT_CLASS] = {N, T, S}, [PUT_NODE] = {N, T, N, S}, [DROP_NODE] = {N}, [OBSERVE] = {N, T},
  [PUT_QUEUE] = {N, N, ANY, S, T}, [DROP_QUEUE] = {N}, [PUT_JOB] = {N, N, N, T, S}, [DROP_JOB] = {N},
  [PURGE_JOB] = {N}, [PUT_OBJECT] = {S, ANY}, [PUT_PARTITION] = {N, T, T, S},
}

local function check_shape(index, op)
  local shape = type(op) == T and shapes[op[1]]
  if not shape or #op ~= #shape + 1 then
    reject('operation ' .. index .. ': unknown kind, or fields too many or too few')
  end
  for i, wanted in ipairs(shape) do
    local value = op[i + 1]
    local is = type(value)
    if wanted ~= is and not (wanted == ANY and (value == false or is == T or is == S)) then
      reject('operation ' .. index .. ': field ' .. i .. ' is a ' .. is)
    end
    if is == N and (value < -1 or value >= LIMIT or value ~= floor(value)) then
      reject('operation ' .. index .. ': field ' .. i .. ' is not a whole number from -1 to 2^53')
    end
  end
end

local function check_documents()
  for i = 1, #documents, 2 do
    local body = documents[i + 1]
    if type(documents[i]) ~= S or (body ~= false and type(body) ~= S) then
      reject('document ' .. (i + 1) / 2 .. ': its key or its body is not text')
    end
  end
end

-- Load -------------------------------------------------------------------------------------------

local function list()
  local seen, items = {}, {}
  return items, function(id)
    if not seen[id] then
      seen[id] = true
      items[#items + 1] = id
    end
  end
end

local function load_tasks(jid)
  local rec = job[jid]
  if not rec or job_tasks[jid] then return end
  local fields, top = {}, rec[5 + 3 * rec[4]]
  for tix = 0, top - 1 do fields[tix + 1] = jid .. '.' .. tix end
  local tasks = {}
  for i, value in ipairs(fetch(TASK, fields, top)) do
    if value then
      local record = read_task(value, jid, i - 1)
      tasks[#tasks + 1] = record
      want_class(record[3])
    end
  end
  job_tasks[jid] = tasks
end

-- Every queue there is: one that is to go may be the parent of any.
local function want_all_queues(want)
  for _, qid in ipairs(call('HKEYS', QUEUE)) do want(tonumber(qid)) end
end

local function load_all()
  local jids, want_job = list()
  local qids, want_queue = list()
  local cids, want_cid = list()
  for index, op in ipairs(ops) do
    check_shape(index, op)
    local kind = op[1]
    if kind == PUT_CLASS then want_cid(op[2])
    elseif kind == PUT_NODE or kind == DROP_NODE or kind == OBSERVE then want_row(op[2])
    elseif kind == PUT_QUEUE then
      want_queue(op[2])
      want_queue(op[3])
    elseif kind == PUT_JOB then
      want_job(op[2])
      want_queue(op[3])
    elseif kind == DROP_JOB or kind == PURGE_JOB then want_job(op[2])
    elseif kind == DROP_QUEUE then want_all_queues(want_queue)
    end
  end
  load_jobs(jids, #jids)
  load_nominations(jids, #jids)
  for _, op in ipairs(ops) do
    local rec = job[op[2]]
    if op[1] == PURGE_JOB or (op[1] == PUT_JOB and rec and rec[2] ~= op[3]) then load_tasks(op[2]) end
  end
  for _, jid in ipairs(jids) do
    if job[jid] then want_queue(job[jid][2]) end
  end
  load_queues(qids, #qids)
  load_nodes()
  load_classes()
  for i, raw in ipairs(fetch(CLASS, cids, #cids)) do
    class_raw[cids[i]] = raw and opened(raw, 'class', cids[i])
  end
end

-- Checks -----------------------------------------------------------------------------------------

local function check_amounts(what, flat, width)
  if #flat % width ~= 0 then reject(what .. ': incomplete list of amounts') end
  for i = 1, #flat, width do
    local slot = flat[i]
    if slot < 0 or slot > 4095 or slot ~= floor(slot) then
      reject(what .. ': slot ' .. slot .. ' is outside 0..4095')
    end
    for k = i + 1, i + width - 1 do
      if flat[k] < 0 or flat[k] >= LIMIT or flat[k] ~= floor(flat[k]) then
        reject(what .. ': the amount of slot ' .. slot .. ' is not a whole number below 2^53')
      end
    end
  end
end

local function check_groups(jid, flat)
  if #flat == 0 or #flat % 3 ~= 0 then reject('job ' .. jid .. ': groups are missing') end
  for i = 1, #flat, 3 do
    local index = (i - 1) / 3
    if flat[i] < -1 or flat[i] >= index or (index == 0 and flat[i] ~= -1) then
      reject('job ' .. jid .. ': the parent of group ' .. index .. ' must come before it')
    end
    if flat[i + 1] < 0 then
      reject('job ' .. jid .. ': the minimum of group ' .. index .. ' must not be negative')
    end
  end
end

local function check_parent(qid, parent)
  local above = parent
  while above >= 0 do
    if above == qid then reject('queue ' .. qid .. ': its parents form a circle') end
    if not queue[above] then reject('queue ' .. qid .. ': parent ' .. above .. ' is not known') end
    above = queue[above][1]
  end
end

-- Classes and nodes ------------------------------------------------------------------------------

local function put_class(cid, flat, spec)
  check_amounts('class ' .. cid, flat, 3)
  local packed = spack('<I4', #flat / 3) .. spack(doubles(#flat), unpack(flat))
  local known = class_raw[cid]
  if known and string.sub(known, 1, #packed) ~= packed then
    reject('class ' .. cid .. ': its requests cannot change; use a new class')
  end
  class_raw[cid] = packed .. spec
  class_new[cid] = true
  for i = 1, #flat, 3 do
    if flat[i + 2] > implied_of(flat[i]) then
      implied[flat[i]] = flat[i + 2]
      implied_dirty = true
    end
  end
end

local function node_of(row)
  if not node[row] then node[row] = {0, 0, 0} end
  return node[row]
end

local function slots_needed(flat, width)
  local most = 0
  for i = 1, #flat, width do
    if flat[i] >= most then most = flat[i] + 1 end
  end
  return most
end

local function set_part(rec, part, flat, default)
  local most = slots_needed(flat, 2)
  if most > rec[3] then grow(rec, most) end
  for slot = 0, rec[3] - 1 do rec[4 + 5 * slot + part] = default(slot) end
  for i = 1, #flat, 2 do rec[4 + 5 * flat[i] + part] = flat[i + 1] end
end

local function nothing() return 0 end

local function put_node(row, flat, spec_version, spec)
  check_amounts('node ' .. row, flat, 2)
  local rec = node_of(row)
  set_part(rec, 0, flat, implied_of)
  rec[1], rec[2] = rec[1] + 1, spec_version
  specs[NODESPEC][row] = spec
end

local function drop_node(row)
  local rec = node[row]
  if not rec then return end
  set_part(rec, 0, {}, nothing)
  rec[1], rec[2] = rec[1] + 1, rec[2] + 1
  specs[NODESPEC][row] = false
end

local function observe(row, flat)
  check_amounts('node ' .. row, flat, 2)
  local rec = node[row]
  if not rec then return end
  set_part(rec, OBSERVED, flat, nothing)
  rec[1] = rec[1] + 1
end

-- Queues -----------------------------------------------------------------------------------------

-- Add the totals of one queue to another and its ancestors, or take them away.
local function add_totals(qid, from, sign)
  while qid >= 0 and queue[qid] do
    local rec = queue[qid]
    if from[2] > rec[2] then grow_queue(rec, from[2]) end
    for b = 3, 2 + QUEUE_WIDTH * from[2], QUEUE_WIDTH do
      for at = b, b + LEAVING, LEAVING do
        local lo = rec[at + 1] + sign * from[at + 1]
        local carry = floor(lo / LIMB)
        rec[at], rec[at + 1] = rec[at] + sign * from[at] + carry, lo - carry * LIMB
      end
    end
    qid = rec[1]
  end
end

-- Two limbs of each slot, `none` where the list says nothing of it.
local function set_limbs(rec, at, flat, none)
  for b = 3 + at, 2 + QUEUE_WIDTH * rec[2], QUEUE_WIDTH do rec[b], rec[b + 1] = none, 0 end
  for i = 1, #flat, 3 do
    local b = 3 + QUEUE_WIDTH * flat[i] + at
    rec[b], rec[b + 1] = flat[i + 1], flat[i + 2]
  end
end

local function put_queue(qid, parent, flat, spec, kept)
  flat = flat or {}
  check_amounts('queue ' .. qid, flat, 3)
  check_amounts('queue ' .. qid, kept, 3)
  check_parent(qid, parent)
  local rec = queue[qid]
  if not rec then
    rec = {parent, 0}
    queue[qid] = rec
  elseif rec[1] ~= parent then
    mark_queue(qid)
    add_totals(rec[1], rec, -1)
    rec[1] = parent
    add_totals(parent, rec, 1)
    queue_dirty[qid] = nil
  end
  local most = math.max(slots_needed(flat, 3), slots_needed(kept, 3))
  if most > rec[2] then grow_queue(rec, most) end
  set_limbs(rec, 2, flat, -1)
  set_limbs(rec, GUARANTEED, kept, 0)
  mark_queue(qid)
  queue_gone[qid] = nil
  specs[QUEUESPEC][qid] = spec
end

local function drop_queue(qid)
  local rec = queue[qid]
  if not rec then return end
  for b = 3, 2 + QUEUE_WIDTH * rec[2], QUEUE_WIDTH do
    if rec[b] ~= 0 or rec[b + 1] ~= 0 then reject('queue ' .. qid .. ': its jobs still use something') end
  end
  for other, above in pairs(queue) do
    if above[1] == qid then reject('queue ' .. qid .. ': queue ' .. other .. ' is below it') end
  end
  queue[qid], queue_dirty[qid] = nil, nil
  queue_gone[qid] = true
  specs[QUEUESPEC][qid] = false
end

-- Jobs -------------------------------------------------------------------------------------------

local function drop_nomination(jid)
  local held = nomination[jid]
  if not held then return end
  shift_nomination(held, -1, touch)
  nomination[jid] = nil
  nomination_dirty[jid] = true
  dropped[#dropped + 1] = jid
end

local function move_queue(jid, from, to)
  if to >= 0 and not queue[to] then
    reject('job ' .. jid .. ': queue ' .. to .. ' is not known; store the queue first')
  end
  for _, record in ipairs(job_tasks[jid] or {}) do
    if record[1] >= BINDING and record[1] <= RELEASING_STATE then
      charge(from, class[record[3]], -1)
      charge(to, class[record[3]], 1)
      if record[1] == RELEASING_STATE then
        leave(from, class[record[3]], -1)
        leave(to, class[record[3]], 1)
      end
      mark_queue(from)
      mark_queue(to)
    end
  end
end

-- What a job held stays with it. A group that is no longer named keeps its members, without minimum.
local function inherit(rec, old)
  for group = rec[4], old[4] - 1 do
    local b = 5 + 3 * group
    rec[b], rec[b + 1], rec[b + 2] = old[b], 0, 0
  end
  if old[4] > rec[4] then rec[4] = old[4] end
  for group = 0, old[4] - 1 do rec[7 + 3 * group] = rec[7 + 3 * group] + old[7 + 3 * group] end
  rec[5 + 3 * rec[4]] = old[5 + 3 * old[4]]
end

local function put_job(jid, qid, spec_version, flat, spec)
  check_groups(jid, flat)
  local old = job[jid]
  local rec = {spec_version, qid, 0, #flat / 3}
  for i = 1, #flat do rec[4 + i] = flat[i] end
  rec[5 + #flat] = 0
  if old then
    inherit(rec, old)
    if old[2] ~= qid then move_queue(jid, old[2], qid) end
    if old[1] ~= spec_version then drop_nomination(jid) end
  end
  for group = 0, rec[4] - 1 do
    if rec[7 + 3 * group] < 0 then rec[7 + 3 * group] = 0 end
  end
  job_gone[jid] = nil
  job[jid] = rec
  job_dirty[jid] = true
  specs[JOBSPEC][jid] = spec
end

local function drop_job(jid)
  local rec = job[jid]
  if not rec or rec[3] ~= 0 then return end
  rec[1], rec[3] = rec[1] + 1, 1
  job_dirty[jid] = true
  drop_nomination(jid)
end

local function purge_job(jid)
  local rec = job[jid]
  if not rec then return end
  if rec[3] == 0 then reject('job ' .. jid .. ': it is not gone; drop it first') end
  for _, record in ipairs(job_tasks[jid] or {}) do
    if record[1] >= BINDING and record[1] <= RELEASING_STATE then
      reject('job ' .. jid .. ': a task of it still holds node ' .. record[2])
    end
  end
  for tix = 0, rec[5 + 3 * rec[4]] - 1 do
    task_gone_count = task_gone_count + 1
    task_gone[task_gone_count] = jid .. '.' .. tix
  end
  job[jid], job_dirty[jid] = nil, nil
  job_gone[jid] = true
  specs[JOBSPEC][jid] = false
end

local function put_partition(op)
  partition = sealed(mpack(op))
end

-- Judge and write --------------------------------------------------------------------------------

local handlers = {
  [PUT_CLASS] = put_class, [PUT_NODE] = put_node, [DROP_NODE] = drop_node, [OBSERVE] = observe,
  [PUT_QUEUE] = put_queue, [DROP_QUEUE] = drop_queue, [PUT_JOB] = put_job, [DROP_JOB] = drop_job,
  [PURGE_JOB] = purge_job,
  [PUT_OBJECT] = function(name, spec) specs[OBJECT][name] = spec end,
}

local function judge(index)
  local op = ops[index]
  turn = index
  if op[1] == PUT_PARTITION then return put_partition(op) end
  handlers[op[1]](op[2], op[3], op[4], op[5], op[6])
end

local function write_specs()
  for key, values in pairs(specs) do
    local args, n, gone, m = {}, 0, {}, 0
    for id, spec in pairs(values) do
      if spec then
        args[n + 1], args[n + 2] = id, spec
        n = n + 2
      else
        m = m + 1
        gone[m] = id
      end
    end
    each_chunk('HSET', key, args, n)
    each_chunk('HDEL', key, gone, m)
  end
end

local function forget(key, gone)
  local ids, n = {}, 0
  for id in pairs(gone) do
    n = n + 1
    ids[n] = id
  end
  each_chunk('HDEL', key, ids, n)
end

-- Returns the keys, for who follows the log and wants to read the documents anew.
local function write_documents()
  local flat = documents
  local args, n, gone, m, keys = {}, 0, {}, 0, {}
  for i = 1, #flat, 2 do
    keys[(i + 1) / 2] = flat[i]
    if flat[i + 1] then
      args[n + 1], args[n + 2] = flat[i], flat[i + 1]
      n = n + 2
    else
      m = m + 1
      gone[m] = flat[i]
    end
  end
  each_chunk('HSET', DOC, args, n)
  each_chunk('HDEL', DOC, gone, m)
  return keys
end

local function write_classes()
  local args, n = {}, 0
  for cid in pairs(class_new) do
    args[n + 1], args[n + 2] = cid, sealed(class_raw[cid])
    n = n + 2
  end
  each_chunk('HSET', CLASS, args, n)
  if implied_dirty then
    local flat = {}
    for slot, capacity in pairs(implied) do
      flat[#flat + 1] = slot
      flat[#flat + 1] = capacity
    end
    call('HSET', META, 'implied', sealed(mpack(flat)))
  end
end

check_documents()
load_all()
for index = 1, #ops do judge(index) end
local rows, moved = write_nodes()
local records = pack_records(moved)
write_specs()
write_classes()
write_queues()
forget(QUEUE, queue_gone)
write_jobs(job_dirty)
forget(JOB, job_gone)
each_chunk('HDEL', TASK, task_gone, task_gone_count)
write_nominations(nomination_dirty)
if partition then call('SET', PARTITION, partition) end
local keys, logged = write_documents(), nil
if #ops > 0 or #keys > 0 then
  logged = tell(LOG, {2, writer, epoch, sequence, ARGV[5], dropped, rows, keys}, records)
end
return answer({COMMITTED, rows}, records, logged)
