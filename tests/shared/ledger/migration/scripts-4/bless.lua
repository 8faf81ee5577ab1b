-- The leader accepts this run of the server. ARGV = coordinator, its epoch, id of the cluster, schema,
-- digest of the scripts, a log id that was seen as (milliseconds, number).
-- Answers {0, run id}, {1} where it leads no more, {2, id or nothing} where this is another ledger,
-- {3} where the log does not have what was seen.
local cluster, after, after_number = ARGV[3], tonumber(ARGV[6]), tonumber(ARGV[7])

-- Entries may have been added since the copy was made, by claims if by nobody else: what was seen
-- must be there itself, or have been cut off.
local function knows_what_was_seen()
  if after == 0 then return true end
  local cut = call('HGET', META, 'trimmed')
  if cut then
    local milliseconds, number = string.match(cut, '^(%d+)-(%d+)$')
    milliseconds, number = tonumber(milliseconds), tonumber(number)
    if after < milliseconds or (after == milliseconds and after_number <= number) then return true end
  end
  local id = string.format('%.0f-%.0f', after, after_number)
  return #call('XRANGE', LOG, id, id) == 1
end

local found = call('HGET', META, 'cluster')
if found ~= cluster then return {2, found} end
if not owns(COORDINATOR, epoch) then return {1} end
if not knows_what_was_seen() then return {3} end
local run = run_id()
call('HSET', META, 'run', run, 'schema', ARGV[4], 'scripts', ARGV[5])
return {0, run}
