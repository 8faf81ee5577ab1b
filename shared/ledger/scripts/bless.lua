-- The leader accepts this run of the server. ARGV = coordinator, its epoch, id of the cluster, schema,
-- digest of the scripts, a log id that was seen as (milliseconds, number).
-- Answers {0, run id}, {1} where it leads no more, {2, id or nothing} where this is another ledger,
-- {3} where the log does not have what was seen, {4} where its records are of another schema.
local cluster, after, after_number = ARGV[3], tonumber(ARGV[6]), tonumber(ARGV[7])

-- Entries may have been added since the copy was made, in a run that was accepted meanwhile: what was
-- seen must be there itself, or have been cut off.
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

-- Writers that were claimed before anybody accepted this run: their epochs are told in the log now,
-- before anything that is written under them.
local function untold_writers()
  local writers = {}
  for _, field in ipairs(call('HKEYS', EPOCHS)) do
    writers[#writers + 1] = string.match(field, '^(.*)/untold$')
  end
  table.sort(writers)
  return writers
end

local found = call('HMGET', META, 'cluster', 'schema', 'take_up')
if found[1] ~= cluster then return {2, found[1]} end
if not owns(COORDINATOR, epoch) then return {1} end
if not knows_what_was_seen() then return {3} end
if found[3] or (found[2] and found[2] ~= ARGV[4]) then return {4} end
local run, untold = run_id(), untold_writers()
for _, name in ipairs(untold) do plan_entry(LOG, {3, name, call('HGET', EPOCHS, name)}) end
for _, name in ipairs(untold) do plan_call('HDEL', EPOCHS, name .. '/untold') end
plan_call('HSET', META, 'run', run, 'schema', ARGV[4], 'scripts', ARGV[5])
flush()
return {0, run}
