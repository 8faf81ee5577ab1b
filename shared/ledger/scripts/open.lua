-- Bind entries that are open: given out and not acknowledged, or not given out yet.
-- ARGV = reader, id to begin after ('0': from the first that may be open), how many entries to look at.
-- Answers those of them that are open, as the stream has them ({id, fields}), and the id to go on from,
-- '' at the end.
local BINDERS = 'binders'
local after, limit = ARGV[2], tonumber(ARGV[3])

-- An id as {milliseconds, number}.
local function position(id)
  local milliseconds, number = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(milliseconds), tonumber(number)
end

local function last_delivered()
  for _, group in ipairs(call('XINFO', 'GROUPS', BINDS)) do
    local fields = {}
    for i = 1, #group, 2 do fields[group[i]] = group[i + 1] end
    if fields.name == BINDERS then return fields['last-delivered-id'] end
  end
  return '0-0'
end

local delivered, lowest = last_delivered(), call('XPENDING', BINDS, BINDERS)
local first = '(' .. after
if after == '0' then first = lowest[1] > 0 and lowest[2] or '(' .. delivered end
local entries, open, pending = call('XRANGE', BINDS, first, '+', 'COUNT', limit), {}, {}
local n = #entries
if n == 0 then return {open, ''} end
local waiting = call('XPENDING', BINDS, BINDERS, entries[1][1], entries[n][1], limit)
for _, entry in ipairs(waiting) do pending[entry[1]] = true end
local milliseconds, number = position(delivered)
for _, entry in ipairs(entries) do
  local ms, seq = position(entry[1])
  if pending[entry[1]] or ms > milliseconds or (ms == milliseconds and seq > number) then
    open[#open + 1] = entry
  end
end
return {open, n == limit and entries[n][1] or ''}
