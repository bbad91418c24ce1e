#!lua flags=allow-oom
-- Pauses a job: its pending regular run is taken out and held. Retries and manual runs go on.
-- Guard: the job exists; its pending run is the one read. Pausing twice answers paused twice.
-- KEYS 1 job
-- KEYS 2 jobs
-- KEYS 3 job_due
-- KEYS 4 deeds
-- ARGV 1 now
-- ARGV 2 job_name
-- ARGV 3 pending: as read
-- ARGV 4 by: whose wish it is, or ''
-- Reply paused
-- Reply already
-- Reply unknown
-- Reply stale
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'zset', KEYS[3], 'zset', KEYS[4], 'zset'})
if bad then return bad end
local job = redis.call('HMGET', KEYS[1], 'rev', 'ended', 'pending', 'paused')
if not job[1] or job[2] then return {'unknown'} end
if job[4] then return {'already'} end
if (job[3] or '') ~= ARGV[3] then return {'stale'} end
redis.call('HSET', KEYS[1], 'paused', int(now), 'pending', '')
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'held', ARGV[3]) end
redis.call('ZADD', KEYS[2], PARKED, ARGV[2])
note_deed(KEYS[4], now, 'paused', ARGV[4], {})
if ARGV[3] ~= '' then redis.call('ZREM', KEYS[3], ARGV[3]) end
return {'paused'}
