-- A lease begins anew, also one that ran out, as long as nobody else has claimed the writer and it
-- was not given back. ARGV = writer, epoch, length in microseconds. Answers 1 or 0.
local found = call('HMGET', EPOCHS, writer, writer .. '/lease')
if found[1] ~= epoch then return 0 end
if found[2] and string.sub(found[2], 1, 2) == '0 ' then return 0 end
set_lease(writer, tonumber(ARGV[3]))
return 1
