#!lua flags=allow-oom
-- Gives the data a new epoch: on the first use, or because a node noticed a data loss.
-- After a loss the script also records the loss, raises the fence above the highest fence ever
-- seen, and starts the time for restoring data. During this time no run is due.
-- Guard: the epoch is the one that the caller read, so only one of several nodes records a loss.
-- KEYS 1 epoch
-- KEYS 2 data_losses
-- KEYS 3 restoring_until
-- KEYS 4 fence
-- ARGV 1 now
-- ARGV 2 read: the epoch as the caller read it, or ''
-- ARGV 3 new_epoch
-- ARGV 4 loss: the record of the loss as JSON, or '' on the first use
-- ARGV 5 highest: the highest fence that a node has seen
-- ARGV 6 restore_ms
-- Reply begun
-- Reply another: epoch
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'string', KEYS[2], 'zset', KEYS[3], 'string', KEYS[4], 'string'})
if bad then return bad end
local found = redis.call('GET', KEYS[1]) or ''
if found == ARGV[3] then return {'begun'} end
if found ~= ARGV[2] then return {'another', found} end
if ARGV[4] ~= '' then
  redis.call('ZADD', KEYS[2], now, ARGV[4])
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -201)
  if whole(redis.call('GET', KEYS[4]), FENCE) < tonumber(ARGV[5]) then redis.call('SET', KEYS[4], ARGV[5]) end
  redis.call('SET', KEYS[3], int(now + tonumber(ARGV[6])))
end
redis.call('SET', KEYS[1], ARGV[3])
return {'begun'}
