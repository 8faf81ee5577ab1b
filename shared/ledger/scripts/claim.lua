-- A new epoch of a writer, whose window starts empty.
-- ARGV = writer, nonce, epoch of the leader (nothing where the coordinator's own seat is claimed),
-- length of the lease in microseconds (0: none), holder.
-- Answers {0, epoch}, {1, epoch, microseconds left, holder} where another's lease lasts, {2} where
-- the leader leads no more.
if writer == COORDINATOR then
  local other, left = holding(COORDINATOR)
  if left and left > 0 then
    local holder = call('HGET', EPOCHS, COORDINATOR .. '/holder') or ''
    flush()
    return {1, other, left, holder}
  end
-- Any other writer the leader claims at any time, lease or not: so it shuts out a worker that is
-- silent before it gives its turns to another (decisions 0005, 0006).
elseif not owns(COORDINATOR, ARGV[3]) then return {2}
end
local counter = 0
local before = call('HGET', EPOCHS, writer)
if before then counter = tonumber(string.match(before, '^(%d+):')) end
counter = counter + 1
local text = string.format('%d:%s', counter, ARGV[2])
-- Nothing is added to the log of a run that nobody has accepted: who reads on in an old copy would find
-- entries newer than all that he saw, and what he saw and is missing would not be looked for (bless).
if call('HGET', META, 'run') == run_id() then
  plan_entry(LOG, {3, writer, text})
else
  plan_call('HSET', EPOCHS, writer .. '/untold', '1')
end
plan_call('HSET', EPOCHS, writer, text, writer .. '/holder', ARGV[5])
local length = tonumber(ARGV[4])
if length > 0 then set_lease(writer, length) else plan_call('HDEL', EPOCHS, writer .. '/lease') end
-- Sequence numbers begin anew under the new epoch: an answer kept from before would be given for a
-- batch that nobody has judged.
plan_call('DEL', WINDOW)
flush()
return {0, text}
