-- The leader accepts this run of the server. ARGV = coordinator, its epoch, id of the cluster, schema,
-- digest of the scripts, newest log id that anyone saw as (milliseconds, number).
-- Answers {0, run id}, {1} where it leads no more, {2, id or nothing} where this is another ledger,
-- {3, newest log id} where the log ends before what was seen.
local cluster, after, after_number = ARGV[3], tonumber(ARGV[6]), tonumber(ARGV[7])

local function log_end()
  local told = redis.pcall('XINFO', 'STREAM', LOG)
  for i = 1, #told, 2 do
    if told[i] == 'last-generated-id' then return told[i + 1] end
  end
  return '0-0'
end

local found = call('HGET', META, 'cluster')
if found ~= cluster then return {2, found} end
if not owns(COORDINATOR, epoch) then return {1} end
local newest = log_end()
local milliseconds, number = string.match(newest, '^(%d+)-(%d+)$')
milliseconds, number = tonumber(milliseconds), tonumber(number)
if milliseconds < after or (milliseconds == after and number < after_number) then
  return {3, newest}
end
local run = run_id()
call('HSET', META, 'run', run, 'schema', ARGV[4], 'scripts', ARGV[5])
return {0, run}
