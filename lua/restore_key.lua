#!lua flags=allow-oom
-- Restores a key from quarantine.
-- Guard: the entry is as the caller read it, the key has the type of its family, and its name is
-- free.
-- KEYS 1 quarantine
-- KEYS 2 aside
-- KEYS 3 key
-- KEYS 4 nudge
-- ARGV 1 field: the entry's name
-- ARGV 2 entry: as the caller read it
-- ARGV 3 kind: the type that the key must have
-- Reply restored
-- Reply gone: the entry is missing or has changed
-- Reply taken: the name of the key is in use
-- Reply refused: the reason as text
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'hash'})
if bad then return bad end
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return {'gone'} end
local kind = redis.call('TYPE', KEYS[2]).ok
if kind == 'none' then return {'gone'} end
if kind ~= ARGV[3] then return {'refused', 'the quarantined key is a ' .. kind .. ', wanted a ' .. ARGV[3]} end
if redis.call('EXISTS', KEYS[3]) == 1 then return {'taken'} end
redis.call('RENAME', KEYS[2], KEYS[3])
redis.call('HDEL', KEYS[1], ARGV[1])
wake_nodes(KEYS[4], 'due')
return {'restored'}
