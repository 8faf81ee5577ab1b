-- What the ledger's scripts find on a server besides Lua itself: redis, cmsgpack and struct, over
-- hashes that are tables. What tables cannot do (streams, bytes of numbers, checksums) is Python's.
local python = ...
local floor, byte, char, sub, concat = math.floor, string.byte, string.char, string.sub, table.concat
local data, seconds, micros, run  -- of the server that is called
KEYS, ARGV = {}, {}

-- cmsgpack -------------------------------------------------------------------------------------------

cmsgpack = {}

local function big_endian(n, size)
  local bytes = {}
  for i = size, 1, -1 do
    bytes[i] = n % 256
    n = floor(n / 256)
  end
  return char(unpack(bytes))
end

local function pack_number(n)
  if n ~= floor(n) or n >= 2 ^ 63 or n < -2 ^ 63 then return python.pack_fraction(n) end
  if n >= 0 then
    if n < 128 then return char(n) end
    if n < 256 then return char(204, n) end
    if n < 65536 then return char(205, floor(n / 256), n % 256) end
    if n < 4294967296 then return char(206) .. big_endian(n, 4) end
    return char(207) .. big_endian(n, 8)
  end
  if n >= -32 then return char(256 + n) end
  if n >= -128 then return char(208, 256 + n) end
  if n >= -32768 then return char(209) .. big_endian(65536 + n, 2) end
  if n >= -2147483648 then return char(210) .. big_endian(4294967296 + n, 4) end
  return python.pack('>Bq', 211, n)
end

local function header(n, short, most, codes)
  if n <= most then return char(short + n) end
  if codes[1] and n < 256 then return char(codes[1], n) end
  if n < 65536 then return char(codes[2], floor(n / 256), n % 256) end
  return char(codes[3]) .. big_endian(n, 4)
end

local STRING, LIST, MAP = {217, 218, 219}, {nil, 220, 221}, {nil, 222, 223}
-- By the type of a value: adds its bytes to `out`, and returns how many pieces there are.
local packers
packers = {
  number = function(value, out, n)
    out[n + 1] = pack_number(value)
    return n + 1
  end,
  string = function(value, out, n)
    out[n + 1], out[n + 2] = header(#value, 160, 31, STRING), value
    return n + 2
  end,
  boolean = function(value, out, n)
    out[n + 1] = value and '\195' or '\194'
    return n + 1
  end,
  table = function(value, out, n)
    local size, listed = 0, #value
    for _ in pairs(value) do size = size + 1 end
    if size == listed then
      out[n + 1] = header(size, 144, 15, LIST)
      n = n + 1
      for i = 1, size do
        local item = value[i]
        n = packers[type(item)](item, out, n)
      end
      return n
    end
    out[n + 1] = header(size, 128, 15, MAP)
    n = n + 1
    for name, item in pairs(value) do
      n = packers[type(name)](name, out, n)
      n = packers[type(item)](item, out, n)
    end
    return n
  end,
}

function cmsgpack.pack(value)
  local out = {}
  packers[type(value)](value, out, 0)
  return concat(out)
end

local read_value  -- (the value at a byte, and where the next one begins)

local function bytes_of(text, at, size)
  if at + size - 1 > #text then error('Missing bytes in input.', 0) end
  return sub(text, at, at + size - 1), at + size
end

local function list_of(text, at, size)
  local list = {}
  for i = 1, size do list[i], at = read_value(text, at) end
  return list, at
end

local function map_of(text, at, size)
  local map, name = {}, nil
  for _ = 1, size do
    name, at = read_value(text, at)
    map[name], at = read_value(text, at)
  end
  return map, at
end

local function unsigned(text, at, size)
  local n = 0
  for i = at, at + size - 1 do n = n * 256 + (byte(text, i) or error('Missing bytes in input.', 0)) end
  return n
end

local function of_size(width, make)
  return function(text, at) return make(text, at + width, unsigned(text, at, width)) end
end

local function number_of(width, half_range)
  return function(text, at)
    local n = unsigned(text, at, width)
    if n >= half_range then n = n - 2 * half_range end
    return n, at + width
  end
end

local function float_of(format)
  return function(text, at) return python.unpack(format, text, at) end
end

local NO_LIMIT = math.huge
local readers = {
  [192] = function(_, at) return nil, at end,
  [194] = function(_, at) return false, at end, [195] = function(_, at) return true, at end,
  [202] = float_of('>f'), [203] = float_of('>d'),
  [204] = number_of(1, NO_LIMIT), [205] = number_of(2, NO_LIMIT), [206] = number_of(4, NO_LIMIT),
  [207] = number_of(8, NO_LIMIT),
  [208] = number_of(1, 2 ^ 7), [209] = number_of(2, 2 ^ 15), [210] = number_of(4, 2 ^ 31),
  [211] = float_of('>q'),
  [217] = of_size(1, bytes_of), [218] = of_size(2, bytes_of), [219] = of_size(4, bytes_of),
  [220] = of_size(2, list_of), [221] = of_size(4, list_of),
  [222] = of_size(2, map_of), [223] = of_size(4, map_of),
}

function read_value(text, at)
  local first = byte(text, at)
  if not first then error('Missing bytes in input.', 0) end
  if first < 128 then return first, at + 1 end
  if first < 144 then return map_of(text, at + 1, first - 128) end
  if first < 160 then return list_of(text, at + 1, first - 144) end
  if first < 192 then return bytes_of(text, at + 1, first - 160) end
  if first >= 224 then return first - 256, at + 1 end
  local reader = readers[first] or error('Bad data format in input.', 0)
  return reader(text, at + 1)
end

function cmsgpack.unpack(text)
  if text == '' then return end
  return (read_value(text, 1))
end

-- struct -----------------------------------------------------------------------------------------------

struct = {pack = python.pack}

-- The one form with a text that ends at a zero byte ('<sB') begins with it.
function struct.unpack(format, text, at)
  if sub(format, 2, 2) ~= 's' then return python.unpack(format, text, at or 1) end
  local zero = string.find(text, '%z', at)
  return sub(text, at, zero - 1), python.unpack('<' .. sub(format, 3), text, zero + 1)
end

-- redis ------------------------------------------------------------------------------------------------

local commands = {}

-- A field or value as the server writes it: whole numbers in full, where Lua has 14 digits. (No script
-- writes a fraction as text.)
local function text(value)
  if type(value) == 'number' and (value >= 1e14 or value <= -1e14) then
    return string.format('%.0f', value)
  end
  return value .. ''
end

function commands.HGET(key, field)
  local hash = data[key]
  return hash and hash[text(field)] or false
end

function commands.HMGET(key, ...)
  local hash, values = data[key], {...}
  for i = 1, #values do values[i] = hash and hash[text(values[i])] or false end
  return values
end

function commands.HSET(key, ...)
  local hash, args = data[key], {...}
  if not hash then
    hash = {}
    data[key] = hash
  end
  for i = 1, #args, 2 do hash[text(args[i])] = text(args[i + 1]) end
end

function commands.HDEL(key, ...)
  local hash, args = data[key], {...}
  if not hash then return end
  for i = 1, #args do hash[text(args[i])] = nil end
  if next(hash) == nil then data[key] = nil end
end

function commands.HKEYS(key)
  local names = {}
  for name in pairs(data[key] or {}) do names[#names + 1] = name end
  return names
end

function commands.HLEN(key)
  return #commands.HKEYS(key)
end

-- Pages by a checksum of the field, so that a field that was there all the time is in one of them.
function commands.HSCAN(key, cursor, _, count)
  local names, page, buckets = commands.HKEYS(key), {}, 4
  if #names <= count and cursor == '0' then buckets = 1 end
  for _, name in ipairs(names) do
    if buckets == 1 or python.checksum(name) % buckets == tonumber(cursor) then
      page[#page + 1] = name
      page[#page + 1] = data[key][name]
    end
  end
  return {(cursor + 1) % buckets .. '', page}
end

function commands.SET(key, value)
  data[key] = value
end

function commands.DEL(key)
  data[key] = nil
end

local types = {table = 'hash', userdata = 'stream', string = 'string', ['nil'] = 'none'}

function commands.TYPE(key)
  return {ok = types[type(data[key])]}
end

function commands.TIME()
  return {seconds, micros}
end

function commands.INFO()
  return run
end

function commands.XADD(key, _, ...)
  local fields = {...}
  for i = 1, #fields do fields[i] = text(fields[i]) end
  return python.add(data[key], unpack(fields))
end

function commands.XRANGE(key, ...)
  return data[key] and python.range(data[key], ...) or {}
end

function commands.XPENDING(key, ...)
  return python.pending(data[key], ...)
end

function commands.XINFO(_, key)
  return python.groups(data[key])
end

redis = {sha1hex = python.sha1hex}

function redis.call(command, ...)
  return commands[command](...)
end

-- What Python calls ----------------------------------------------------------------------------------------

local function flat(list)
  if #list > 2000 then return false end  -- Lua's stack takes 8,000 values
  for i = 1, #list do
    if type(list[i]) == 'table' then return false end
  end
  return true
end

-- A list without lists in it goes as several values, which is much cheaper than a table.
local function answer(value)
  if type(value) == 'table' and flat(value) then return true, unpack(value) end
  return false, value
end

local function evalsha(script, server, s, us, run_id, keys, ...)
  data, seconds, micros, run = server, s, us, run_id
  KEYS, ARGV = keys, {...}
  return answer(script())
end

-- Up to `most` fields and values of a hash, after a field (nil: from the first).
local function page(hash, after, most)
  local found, n = {}, 0
  local name, value = next(hash, after)
  while name and n < most do
    found[n + 1], found[n + 2] = name, value
    n = n + 2
    if n < most then name, value = next(hash, name) end
  end
  return unpack(found, 1, n)
end

-- Hashes and texts; streams are Python's.
local function copy(server)
  local copied = {}
  for key, value in pairs(server) do
    if type(value) == 'table' then
      local hash = {}
      for field, record in pairs(value) do hash[field] = record end
      value = hash
    end
    copied[key] = value
  end
  return copied
end

-- A command from outside of a script.
local function command(server, name, ...)
  data = server
  return answer(commands[name](...))
end

-- As on the server: a name that is not declared is a mistake, and nothing stays for the next script.
setmetatable(_G, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. name .. "'", 2)
  end,
  __newindex = function() error('Attempt to modify a readonly table', 2) end,
})

return evalsha, command, page, copy
