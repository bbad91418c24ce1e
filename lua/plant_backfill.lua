#!lua
-- Plans the run of the first waiting occurrence of a job's backfill, unless the backfill run before
-- it has not ended. The job's schedule is not changed.
-- Guard: the occurrence is the first that waits, as the caller read it; the job is defined, in the
-- lane that the caller read.
-- A repeated call replies `busy`.
-- Keys: job, backfill, backfills, run, job_due, nudge, manual
-- Args: now, id, job_name, due_ms, lane (of the job, as the caller read it)
-- Reply planted
-- Reply busy: the run of this or another occurrence has not ended
-- Reply over: the run has ended; the next occurrence, if any, is the first now
-- Reply empty: no occurrence waits
-- Reply unknown: the job no longer exists, and no occurrence waits
-- Reply stale: another occurrence is the first, or the job's lane changed
-- Reply wrong_type: key, found, wanted

local name = job_name
local job = redis.call('HMGET', k.job, 'rev', 'ended', 'queue')
if not job[1] or job[2] then
  redis.call('ZREM', k.backfills, name)
  redis.call('UNLINK', k.backfill)
  return {'unknown'}
end
local first = redis.call('ZRANGE', k.backfill, 0, 0)[1]
if not first then
  redis.call('ZREM', k.backfills, name)
  return {'empty'}
end
if first ~= id then return {'stale'} end
local state = redis.call('HGET', k.run, 'state')
if state == 'scheduled' or state == 'running' then return {'busy'} end
if state then
  redis.call('ZREM', k.backfill, id)
  if redis.call('EXISTS', k.backfill) == 0 then redis.call('ZREM', k.backfills, name) end
  return {'over'}
end
if job[3] ~= lane then return {'stale'} end
-- A run of a later occurrence may be open, because this occurrence was asked for after it. The end
-- of that run plans the first waiting run.
for _, other in ipairs(redis.call('ZRANGE', k.manual, 0, 999)) do
  if string.find(other, '~backfill', 1, true) then return {'busy'} end
end
redis.call('HSET', k.run, 'job', name, 'due', due_ms, 'queue', lane, 'kind', 'manual', 'rev', job[1], 'state', 'scheduled',
  'planted_at', int(now))
redis.call('ZADD', k.manual, due_ms, id)
redis.call('ZADD', k.job_due, now, id)
nudge_if_head(k.nudge, k.job_due, id)
return {'planted'}
