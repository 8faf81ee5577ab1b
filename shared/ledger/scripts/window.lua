-- The writer's right to speak, and its window of answers.

local window_top

local gate
do
  -- Records of rows as they stand now, for an answer that is given again.
  local function current_records(rows)
    return pack_records(fetch(NODE, rows, #rows))
  end

  local function refusal(verdict)
    return reply(mpack({verdict}), pack_records({}), 0)
  end

  -- nil where the batch may be judged, else the reply to give at once.
  function gate()
    local meta = call('HMGET', META, 'run', 'implied')
    local run = run_id()
    -- First of all: a run that the leader has not accepted may be that of an old copy, whose epochs
    -- and window are as old (decision 0019).
    if meta[1] ~= run or ARGV[4] ~= run then return refusal(RUN) end
    local owner = call('HMGET', EPOCHS, writer, writer .. '/lease')
    -- Compared for equality: no clock and no order of arrival lets a writer through that was
    -- replaced.
    if owner[1] ~= epoch then return refusal(EPOCH) end
    -- A holder that stood still has to renew first; then it learns whether it was replaced
    -- meanwhile.
    if owner[2] and lease_left(owner[2]) <= 0 then return refusal(EPOCH) end
    local window = call('HMGET', WINDOW, 'top', sequence)
    -- Judged before, and the answer was lost: the verdicts of then. The rows are those of now, so
    -- that what is placed again after it begins with present versions.
    if window[2] then
      local packed = opened(window[2], 'answer', sequence)
      local answer = munpack(packed)
      return reply(packed, current_records(answer[#answer]), 1)
    end
    window_top = window[1] and tonumber(window[1])
    -- Below the window nobody can tell any more whether it was judged: twice would be worse than
    -- not at all.
    if window_top and sequence <= window_top - SEQUENCES then return refusal(OLD) end
    implied_packed = meta[2]
    return nil
  end
end

-- The end of a script: the answer (rows last) is remembered with all that is planned, and given with
-- the packed records of the rows.
local function write_and_answer(head, records)
  local packed = mpack(head)
  local top = window_top or sequence
  if sequence > top then
    local stale, n = {}, 0
    local first = top - SEQUENCES + 1
    local last = sequence - SEQUENCES
    if last - first > SEQUENCES then last = first + SEQUENCES end
    for old = first, last do
      n = n + 1
      stale[n] = old
    end
    plan_chunks('HDEL', WINDOW, stale, n)
    top = sequence
  end
  plan_call('HSET', WINDOW, 'top', top, sequence, sealed(packed))
  local given = reply(packed, records, 0)
  local logged = flush()
  given[4], given[5] = logged, logged
  return given
end
