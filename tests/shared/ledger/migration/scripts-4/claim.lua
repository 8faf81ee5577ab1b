-- A new epoch of a writer, whose window starts empty.
-- ARGV = writer, nonce, epoch of the leader (nothing where the coordinator's own seat is claimed),
-- length of the lease in microseconds (0: none), holder.
-- Answers {0, epoch}, {1, epoch, microseconds left, holder} where another's lease lasts, {2} where
-- the leader leads no more.
if writer == COORDINATOR then
  local other, left = holding(COORDINATOR)
  if left and left > 0 then
    return {1, other, left, call('HGET', EPOCHS, COORDINATOR .. '/holder') or ''}
  end
elseif not owns(COORDINATOR, ARGV[3]) then return {2}
end
local counter = 0
local before = call('HGET', EPOCHS, writer)
if before then counter = tonumber(string.match(before, '^(%d+):')) end
counter = counter + 1
local text = string.format('%d:%s', counter, ARGV[2])
call('HSET', EPOCHS, writer, text, writer .. '/holder', ARGV[5])
local length = tonumber(ARGV[4])
if length > 0 then set_lease(writer, length) else call('HDEL', EPOCHS, writer .. '/lease') end
call('DEL', WINDOW)
tell(LOG, {3, writer, text})
return {0, text}
