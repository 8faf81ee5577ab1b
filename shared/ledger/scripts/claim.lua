-- A new epoch of a writer: ARGV = writer, nonce. Its window starts empty.
local counter = 0
local before = call('HGET', EPOCHS, writer)
if before then counter = tonumber(string.match(before, '^(%d+):')) end
counter = counter + 1
local text = string.format('%d:%s', counter, ARGV[2])
call('HSET', EPOCHS, writer, text)
call('DEL', WINDOW)
call('XADD', LOG, '*', 'p', mpack({3, writer, text}))
return text
