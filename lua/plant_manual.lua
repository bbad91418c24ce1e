#!lua
-- Plans a run that an operator asked for, ready now. The job's schedule is not changed.
-- Guard: the job is defined. A repeated call with the same id replies `planted` again.
-- KEYS 1 job
-- KEYS 2 run
-- KEYS 3 job_due
-- KEYS 4 nudge
-- KEYS 5 audit_log
-- KEYS 6 manual
-- ARGV 1 now
-- ARGV 2 id
-- ARGV 3 job_name
-- ARGV 4 due_ms
-- ARGV 5 lane: of the job, as the caller read it
-- ARGV 6 by: the user who asks for the change, or ''
-- Reply planted
-- Reply unknown
-- Reply stale: the job's lane changed
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'hash', KEYS[3], 'zset', KEYS[5], 'zset', KEYS[6], 'zset'})
if bad then return bad end
local job = redis.call('HMGET', KEYS[1], 'rev', 'ended', 'queue')
if not job[1] or job[2] then return {'unknown'} end
if job[3] ~= ARGV[5] then return {'stale'} end
if redis.call('EXISTS', KEYS[2]) == 1 then return {'planted'} end
redis.call('HSET', KEYS[2], 'job', ARGV[3], 'due', ARGV[4], 'queue', ARGV[5], 'kind', 'manual', 'rev', job[1], 'state', 'scheduled', 'planted_at',
  int(now), 'asked_by', ARGV[6])
redis.call('ZADD', KEYS[6], ARGV[4], ARGV[2])
note_change(KEYS[5], now, 'run asked for', ARGV[6], {run = ARGV[2]})
redis.call('ZADD', KEYS[3], now, ARGV[2])
nudge_if_head(KEYS[4], KEYS[3], ARGV[2])
return {'planted'}
