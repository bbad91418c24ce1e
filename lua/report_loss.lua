#!lua flags=allow-oom
-- Stores the report of one node about a data loss: what its journal restored, and which jobs are
-- missing. Also raises the fence above the highest fence that this node has seen.
-- Guard: the data still has the epoch of the loss. A repeated report is stored once.
-- Keys: epoch, data_losses, fence
-- Args: now, read (the epoch of the report), report (as JSON), highest (the highest fence this node
--   has seen)
-- Reply reported: the last fence now
-- Reply moved: the present epoch
-- Reply wrong_type: key, found, wanted

local found = redis.call('GET', k.epoch) or ''
if found ~= read then return {'moved', found} end
redis.call('ZADD', k.data_losses, now, report)
redis.call('ZREMRANGEBYRANK', k.data_losses, 0, -201)
local last = whole(redis.call('GET', k.fence), FENCE)
if last < tonumber(highest) then
  last = tonumber(highest)
  redis.call('SET', k.fence, highest)
end
return {'reported', int(last)}
