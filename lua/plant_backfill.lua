#!lua
-- Plans the run of the first waiting occurrence of a job's backfill, unless the backfill run before
-- it has not ended. The job's schedule is not changed.
-- Guard: the occurrence is the first that waits, as the caller read it; the job is defined, in the
-- lane that the caller read.
-- A repeated call replies `busy`.
-- KEYS 1 job
-- KEYS 2 backfill
-- KEYS 3 backfills
-- KEYS 4 run
-- KEYS 5 job_due
-- KEYS 6 nudge
-- KEYS 7 manual
-- ARGV 1 now
-- ARGV 2 id
-- ARGV 3 job_name
-- ARGV 4 due_ms
-- ARGV 5 lane: of the job, as the caller read it
-- Reply planted
-- Reply busy: the run of this or another occurrence has not ended
-- Reply over: the run has ended; the next occurrence, if any, is the first now
-- Reply empty: no occurrence waits
-- Reply unknown: the job no longer exists, and no occurrence waits
-- Reply stale: another occurrence is the first, or the job's lane changed
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'zset', KEYS[3], 'zset', KEYS[4], 'hash', KEYS[5], 'zset', KEYS[7], 'zset'})
if bad then return bad end
local id, name = ARGV[2], ARGV[3]
local job = redis.call('HMGET', KEYS[1], 'rev', 'ended', 'queue')
if not job[1] or job[2] then
  redis.call('ZREM', KEYS[3], name)
  redis.call('UNLINK', KEYS[2])
  return {'unknown'}
end
local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
if not first then
  redis.call('ZREM', KEYS[3], name)
  return {'empty'}
end
if first ~= id then return {'stale'} end
local state = redis.call('HGET', KEYS[4], 'state')
if state == 'scheduled' or state == 'running' then return {'busy'} end
if state then
  redis.call('ZREM', KEYS[2], id)
  if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('ZREM', KEYS[3], name) end
  return {'over'}
end
if job[3] ~= ARGV[5] then return {'stale'} end
-- A run of a later occurrence may be open, because this occurrence was asked for after it. The end
-- of that run plans the first waiting run.
for _, other in ipairs(redis.call('ZRANGE', KEYS[7], 0, 999)) do
  if string.find(other, '~backfill', 1, true) then return {'busy'} end
end
redis.call('HSET', KEYS[4], 'job', name, 'due', ARGV[4], 'queue', ARGV[5], 'kind', 'manual', 'rev', job[1], 'state', 'scheduled',
  'planted_at', int(now))
redis.call('ZADD', KEYS[7], ARGV[4], id)
redis.call('ZADD', KEYS[5], now, id)
nudge_if_head(KEYS[6], KEYS[5], id)
return {'planted'}
