#!lua flags=allow-oom
-- Gives up the occurrences of a job that wait to be made up for. The run of the one before them is not touched.
-- Guard: none; what does not wait is not given up.
-- KEYS 1 backfill
-- KEYS 2 backfills
-- ARGV 1 job_name
-- Reply dropped: how many
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'zset'})
if bad then return bad end
local count = redis.call('ZCARD', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('UNLINK', KEYS[1])
return {'dropped', count}
