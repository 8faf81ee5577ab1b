-- Bind entries that are open. ARGV = reader, id to begin after, how many entries to look at.
local open, goes_on = open_binds(ARGV[2], tonumber(ARGV[3]))
return {open, goes_on}
