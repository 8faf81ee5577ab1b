-- The plan of writes: what a script will write, as ready commands, until `flush` issues them.

local plan, planned = {}, 0
local log_entry  -- which of them adds to the log

local function plan_call(...)
  planned = planned + 1
  plan[planned] = {...}
end

-- One command with a list of n arguments, in pieces.
local function plan_chunks(command, key, args, n)
  for first = 1, n, CHUNK do
    local last = first + CHUNK - 1
    if last > n then last = n end
    plan_call(command, key, unpack(args, first, last))
  end
end

-- An entry of a stream. Entries are planned before all else: of the commands only XADD can fail for
-- a reason that is not seen beforehand (a stream that has used up its ids), and the first command
-- may fail, because nothing is written then.
local function plan_entry(stream, entry, records)
  plan_call('XADD', stream, '*', unpack(pack_entry(entry, records)))
  if stream == LOG then log_entry = planned end
end

local flush  -- issues the plan; returns the id of the entry in the log, '' where there is none
do
  local types = {HSET = 'hash', HDEL = 'hash', XADD = 'stream'}

  -- A command on a key of another type would fail in the middle.
  local function check_keys()
    local seen = {}
    for i = 1, planned do
      local wanted, key = types[plan[i][1]], plan[i][2]
      if wanted and not seen[key] then
        seen[key] = true
        local is = call('TYPE', key).ok
        if is ~= wanted and is ~= 'none' then altered('key ' .. key .. ' (a ' .. is .. ')') end
      end
    end
  end

  local logged = ''

  -- The commands 1 to i, the arguments of the last given. Each list is spread out on the way down,
  -- and the commands are issued on the way back: from the first of them on, nothing but the server
  -- itself can fail. It refuses for want of memory, or because it may not write now, at the first
  -- write of a script only, and logs all of them as one transaction.
  local function issue(i, ...)
    if i > 1 then issue(i - 1, unpack(plan[i - 1])) end
    local made = call(...)
    if i == log_entry then logged = made end
  end

  function flush()
    if planned == 0 then return logged end
    check_keys()
    issue(planned, unpack(plan[planned]))
    return logged
  end
end
