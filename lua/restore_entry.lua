#!lua flags=allow-oom
-- Puts an entry back from quarantine into the set it stood in.
-- Guard: the entry is still what was read; the set does not have it, nor is the run over or, for a lease, executed by another.
-- KEYS 1 quarantine
-- KEYS 2 set: due or leases
-- KEYS 3 run
-- KEYS 4 job
-- KEYS 5 nudge
-- ARGV 1 field: the entry's name
-- ARGV 2 entry: as read
-- ARGV 3 member
-- ARGV 4 score
-- ARGV 5 fence: of a lease, or '' for a due run
-- Reply restored
-- Reply gone: it is no longer there, or another
-- Reply taken: the set has it
-- Reply refused: why
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'zset', KEYS[3], 'hash', KEYS[4], 'hash'})
if bad then return bad end
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return {'gone'} end
if redis.call('ZSCORE', KEYS[2], ARGV[3]) then return {'taken'} end
local run = redis.call('HMGET', KEYS[3], 'state', 'fence')
if ARGV[5] ~= '' then
  if run[1] ~= 'running' or run[2] ~= ARGV[5] then return {'refused', 'its run does not execute under that fence'} end
else
  if run[1] and run[1] ~= 'scheduled' then return {'refused', 'its run is ' .. run[1]} end
  if redis.call('EXISTS', KEYS[4]) == 0 then return {'refused', 'its job is not known'} end
  if not run[1] and redis.call('HGET', KEYS[4], 'pending') ~= ARGV[3] then
    return {'refused', 'it has no record, and its job does not plan it'}
  end
end
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[3])
redis.call('HDEL', KEYS[1], ARGV[1])
nudge_if_head(KEYS[5], KEYS[2], ARGV[3])
return {'restored'}
