#!lua flags=allow-oom
-- Gives the data a new epoch: on the first use, or because a node noticed a data loss.
-- After a loss the script also records the loss, raises the fence above the highest fence ever
-- seen, and starts the time for restoring data. During this time no run is due.
-- Guard: the epoch is the one that the caller read, so only one of several nodes records a loss.
-- Keys: epoch, data_losses, restoring_until, fence
-- Args: now, read (the epoch as the caller read it, or ''), new_epoch, loss (the record of the loss
--   as JSON, or '' on the first use), highest (the highest fence that a node has seen), restore_ms
-- Reply begun
-- Reply another: epoch
-- Reply wrong_type: key, found, wanted

local found = redis.call('GET', k.epoch) or ''
if found == new_epoch then return {'begun'} end
if found ~= read then return {'another', found} end
if loss ~= '' then
  redis.call('ZADD', k.data_losses, now, loss)
  redis.call('ZREMRANGEBYRANK', k.data_losses, 0, -201)
  if whole(redis.call('GET', k.fence), FENCE) < tonumber(highest) then redis.call('SET', k.fence, highest) end
  redis.call('SET', k.restoring_until, int(now + tonumber(restore_ms)))
end
redis.call('SET', k.epoch, new_epoch)
return {'begun'}
