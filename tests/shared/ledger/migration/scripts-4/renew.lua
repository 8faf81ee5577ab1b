-- A lease begins anew, also one that ran out, as long as nobody else has claimed the writer and it
-- was not given back. ARGV = writer, epoch, length in microseconds. Answers 1 or 0.
if not owns(writer, epoch) then return 0 end
set_lease(writer, tonumber(ARGV[3]))
return 1
