-- What the scripts about ownership share. A writer has up to three fields in the hash of epochs:
-- its epoch (counter:nonce), `<writer>/lease` ("end length", microseconds of the server's clock; end
-- 0: given back) and `<writer>/holder` (who it is, for people).
local COORDINATOR = 'coordinator'

local function given_back(lease)
  return lease and string.sub(lease, 1, 2) == '0 '
end

local function set_lease(name, length)
  call('HSET', EPOCHS, name .. '/lease',
    string.format('%.0f %.0f', server_time() + length, length))
end

-- (epoch or nil, microseconds that its lease still lasts or nil where it has none).
--
-- More left than the whole lease: the clock was set back. The lease begins anew now, which is
-- never too early for its holder, and lets others wait no longer than one lease.
local function holding(name)
  local found = call('HMGET', EPOCHS, name, name .. '/lease')
  local left, length = lease_left(found[2])
  if left and left > length then
    set_lease(name, length)
    left = length
  end
  return found[1], left
end

-- Also where the lease ran out: as long as nobody else claimed the writer, it is still this one's.
local function owns(name, text)
  local found = call('HMGET', EPOCHS, name, name .. '/lease')
  return found[1] == text and not given_back(found[2])
end
