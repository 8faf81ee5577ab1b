-- A page of one table and the log, read in one go, so that the page is as of the last entry.
-- ARGV = reader, id in the log to begin after, how many entries, how many bytes of them, number of
-- the table among the keys, cursor, how many records, then the fields wanted (none: the page at the
-- cursor). Where the log goes on beyond what may be read, the cursor is '' and there are no records.
local entries, trimmed = {}, call('HGET', META, 'trimmed') or ''
local most, left, after = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[2]

-- One after another, and not by their number: one entry is of 100 bytes, another of a megabyte.
while true do
  if #entries >= most or left <= 0 then return {entries, trimmed, '', {}} end
  local entry = call('XRANGE', LOG, '(' .. after, '+', 'COUNT', 1)[1]
  if not entry then break end
  entries[#entries + 1] = entry
  after = entry[1]
  for i = 2, #entry[2], 2 do left = left - #entry[2][i] end
end

local table_, fields, records = KEYS[tonumber(ARGV[5])], {}, {}
for i = 8, #ARGV - 1 do fields[i - 7] = ARGV[i] end
if #fields == 0 then
  local page = call('HSCAN', table_, ARGV[6], 'COUNT', tonumber(ARGV[7]))
  return {entries, trimmed, page[1], page[2]}
end
for i, value in ipairs(fetch(table_, fields, #fields)) do
  if value then
    records[#records + 1] = fields[i]
    records[#records + 1] = value
  end
end
return {entries, trimmed, '0', records}
