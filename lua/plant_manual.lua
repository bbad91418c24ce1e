#!lua
-- Plans a run that an operator asked for, ready now. The job's schedule is not changed.
-- Guard: the job is defined. A repeated call with the same id replies `planted` again.
-- Keys: job, run, job_due, nudge, audit_log, manual
-- Args: now, id, job_name, due_ms, lane (of the job, as the caller read it), by (the user who asks
--   for the change, or ''), note (why, or '')
-- Reply planted
-- Reply unknown
-- Reply stale: the job's lane changed
-- Reply wrong_type: key, found, wanted

local job = redis.call('HMGET', k.job, 'rev', 'ended', 'queue')
if not job[1] or job[2] then return {'unknown'} end
if job[3] ~= lane then return {'stale'} end
if redis.call('EXISTS', k.run) == 1 then return {'planted'} end
redis.call('HSET', k.run, 'job', job_name, 'due', due_ms, 'queue', lane, 'kind', 'manual', 'rev', job[1], 'state', 'scheduled', 'planted_at',
  int(now), 'asked_by', by)
if note ~= '' then redis.call('HSET', k.run, 'note', note) end
redis.call('ZADD', k.manual, due_ms, id)
note_change(k.audit_log, now, 'run asked for', by, {run = id, note = note ~= '' and note or nil})
redis.call('ZADD', k.job_due, now, id)
nudge_if_head(k.nudge, k.job_due, id)
return {'planted'}
