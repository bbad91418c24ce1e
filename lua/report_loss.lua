#!lua flags=allow-oom
-- Stores the report of one node about a data loss: what its journal restored, and which jobs are
-- missing. Also raises the fence above the highest fence that this node has seen.
-- Guard: the data still has the epoch of the loss. A repeated report is stored once.
-- KEYS 1 epoch
-- KEYS 2 data_losses
-- KEYS 3 fence
-- ARGV 1 now
-- ARGV 2 read: the epoch of the report
-- ARGV 3 report: as JSON
-- ARGV 4 highest: the highest fence this node has seen
-- Reply reported: the last fence now
-- Reply moved: the present epoch
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'string', KEYS[2], 'zset', KEYS[3], 'string'})
if bad then return bad end
local found = redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[2] then return {'moved', found} end
redis.call('ZADD', KEYS[2], now, ARGV[3])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -201)
local last = whole(redis.call('GET', KEYS[3]), FENCE)
if last < tonumber(ARGV[4]) then
  last = tonumber(ARGV[4])
  redis.call('SET', KEYS[3], ARGV[4])
end
return {'reported', int(last)}
