#!lua
-- Plants the first waiting backfill run of a job, unless the run before it is not over.
-- The job's schedule is not touched.
-- Guard: the occurrence is the first that waits, as read; the job is defined, in the lane that was
-- read.
-- A repeated call answers `busy`.
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
-- ARGV 5 lane: of the job, as read
-- Reply planted
-- Reply busy: its run, or the run of another occurrence, is not over
-- Reply over: its run is over; the next occurrence, if any, is the first now
-- Reply empty: nothing waits
-- Reply unknown: there is no such job any more, and nothing waits
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
-- A run of a later occurrence may be open, because this occurrence was asked for meanwhile.
-- The end of that run plants the first that waits.
for _, other in ipairs(redis.call('ZRANGE', KEYS[7], 0, 999)) do
  if string.find(other, '~backfill', 1, true) then return {'busy'} end
end
redis.call('HSET', KEYS[4], 'job', name, 'due', ARGV[4], 'queue', ARGV[5], 'kind', 'manual', 'rev', job[1], 'state', 'scheduled',
  'planted_at', int(now))
redis.call('ZADD', KEYS[7], ARGV[4], id)
redis.call('ZADD', KEYS[5], now, id)
nudge_if_head(KEYS[6], KEYS[5], id)
return {'planted'}
