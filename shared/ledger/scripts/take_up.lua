-- A slice of what a new leader writes before it leads: records that it has converted to the next schema
-- and how far it is, or records that it has recounted.
-- ARGV = coordinator, its epoch, schema and progress as they must stand ('' for none), schema and
-- progress from now on ('' for none), packed list of {number of the key, field, value or false}, packed
-- list of entries for the bind stream.
-- Answers 0, 1 where it leads no more, 2 where the progress is another.
if not owns(COORDINATOR, epoch) then return 1 end
local known = call('HMGET', META, 'schema', 'take_up')
if (known[1] or '') ~= ARGV[3] or (known[2] or '') ~= ARGV[4] then return 2 end

local put, gone = {}, {}  -- key -> fields and values; key -> fields
for _, write in ipairs(munpack(ARGV[7])) do
  local key = KEYS[write[1]]
  if write[3] then
    put[key] = put[key] or {}
    put[key][#put[key] + 1] = write[2]
    put[key][#put[key] + 1] = write[3]
  else
    gone[key] = gone[key] or {}
    gone[key][#gone[key] + 1] = write[2]
  end
end
for _, entry in ipairs(munpack(ARGV[8])) do plan_entry(BINDS, entry) end
for key, args in pairs(put) do plan_chunks('HSET', key, args, #args) end
for key, args in pairs(gone) do plan_chunks('HDEL', key, args, #args) end
-- From now on nothing is accepted of anybody until the leader blesses the run anew.
plan_call('HDEL', META, 'run')
if ARGV[6] == '' then
  plan_call('HSET', META, 'schema', ARGV[5])
  plan_call('HDEL', META, 'take_up')
else
  plan_call('HSET', META, 'schema', ARGV[5], 'take_up', ARGV[6])
end
flush()
return 0
