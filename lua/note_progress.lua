#!lua
-- Notes how far the work of an attempt is. Redis itself refuses this script when memory is full; the
-- run goes on.
-- Guard: the run executes under this fence.
-- Keys: run
-- Args: fence, progress
-- Reply noted
-- Reply lost: another attempt has the run, or the run has ended
-- Reply wrong_type: key, found, wanted

local run = redis.call('HMGET', k.run, 'fence', 'state')
if run[1] ~= fence or run[2] ~= 'running' then return {'lost'} end
redis.call('HSET', k.run, 'progress', progress)
return {'noted'}
