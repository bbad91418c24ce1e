#!lua
-- Stores the output that an attempt has written so far. Redis itself refuses this script when
-- memory is full; the run goes on without stored output.
-- Guard: the run still has this fence, so that a node that lost the run cannot overwrite later
-- output.
-- KEYS 1 run
-- KEYS 2 output
-- KEYS 3 outputs
-- KEYS 4 output_bytes
-- KEYS 5 job_outputs
-- KEYS 6 output_sizes
-- ARGV 1 now
-- ARGV 2 id
-- ARGV 3 fence
-- ARGV 4 attempt
-- ARGV 5 head
-- ARGV 6 tail
-- ARGV 7 dropped
-- ARGV 8 job_name
-- Reply written: the number of output bytes kept for the job
-- Reply lost
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'hash', KEYS[3], 'zset', KEYS[4], 'string', KEYS[5], 'zset', KEYS[6], 'hash'})
if bad then return bad end
if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[3] then return {'lost'} end
local size = #ARGV[5] + #ARGV[6]
local before = whole(redis.call('HGET', KEYS[2], 'size'), FENCE)
redis.call('HSET', KEYS[2], 'head', ARGV[5], 'tail', ARGV[6], 'dropped', ARGV[7], 'size', size)
redis.call('ZADD', KEYS[3], now, ARGV[2] .. '#' .. ARGV[4])
redis.call('ZADD', KEYS[5], now, ARGV[2] .. '#' .. ARGV[4])
local bytes = whole(redis.call('GET', KEYS[4]), FENCE)
redis.call('SET', KEYS[4], int(math.max(bytes + size - before, 0)))
local of_job = math.max(whole(redis.call('HGET', KEYS[6], ARGV[8]), FENCE) + size - before, 0)
redis.call('HSET', KEYS[6], ARGV[8], int(of_job))
return {'written', int(of_job)}
