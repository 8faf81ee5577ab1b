-- Who leads: {epoch, holder, microseconds left}, nothing where nobody ever did.
local found, left = holding(COORDINATOR)
if not found then return nil end
if not left or left < 0 then left = 0 end
local holder = call('HGET', EPOCHS, COORDINATOR .. '/holder') or ''
flush()
return {found, holder, left}
