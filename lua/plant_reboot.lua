#!lua
-- Plans a run for a job's @reboot on one host, ready now. Only nodes of that host poll its due set.
-- Guard: the job is defined and not paused, and no run of the job was planned for this boot of the
-- host. So a repeated call, a restart of the daemon and a second node of the host plan no run.
-- Keys: job, run, due (of the host), nudge, boot_runs, manual
-- Args: now, id, job_name, due_ms, lane (of the host), boot (the host and the id of its boot)
-- Reply planted
-- Reply known: a run was already planned for this boot
-- Reply unknown
-- Reply paused
-- Reply wrong_type: key, found, wanted

local mark = job_name .. ' ' .. boot
local job = redis.call('HMGET', k.job, 'rev', 'ended', 'paused')
if not job[1] or job[2] then return {'unknown'} end
if redis.call('ZSCORE', k.boot_runs, mark) then return {'known'} end
if job[3] then return {'paused'} end
redis.call('ZADD', k.boot_runs, now, mark)
redis.call('ZREMRANGEBYRANK', k.boot_runs, 0, -10001)
redis.call('HSET', k.run, 'job', job_name, 'due', due_ms, 'queue', lane, 'kind', 'manual', 'rev', job[1], 'state', 'scheduled',
  'planted_at', int(now))
redis.call('ZADD', k.manual, due_ms, id)
redis.call('ZADD', k.due, now, id)
nudge_if_head(k.nudge, k.due, id)
return {'planted'}
