-- A lease is given back: the epoch counts no more, and who waits for the writer need not. Nothing
-- happens where the epoch is another's. ARGV = writer, epoch.
if call('HGET', EPOCHS, writer) ~= epoch then return 0 end
call('HSET', EPOCHS, writer .. '/lease', '0 0')
return 1
