#!lua flags=allow-oom
-- Restores a key from quarantine.
-- Guard: the entry is as the caller read it, the key has the type of its family, and its name is
-- free.
-- Keys: quarantine, aside:any, key:any, nudge
-- Args: field (the entry's name), entry (as the caller read it), kind (the type that the key must
--   have)
-- Reply restored
-- Reply gone: the entry is missing or has changed
-- Reply taken: the name of the key is in use
-- Reply refused: the reason as text
-- Reply wrong_type: key, found, wanted

if redis.call('HGET', k.quarantine, field) ~= entry then return {'gone'} end
local found = redis.call('TYPE', k.aside).ok
if found == 'none' then return {'gone'} end
if found ~= kind then return {'refused', 'the quarantined key is a ' .. found .. ', wanted a ' .. kind} end
if redis.call('EXISTS', k.key) == 1 then return {'taken'} end
redis.call('RENAME', k.aside, k.key)
redis.call('HDEL', k.quarantine, field)
wake_nodes(k.nudge, 'due')
return {'restored'}
