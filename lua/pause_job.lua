#!lua flags=allow-oom
-- Pauses a job: its pending regular run leaves the due set and is kept until the job is resumed. A
-- one-shot's run that waits at a gate and has not begun gives up its places and is kept too.
-- Retries and manual runs go on. Group members that wait for this job's turn wait no longer.
-- Guard: the job exists; its pending run is the run that the caller read. A repeated call returns
-- the same reply.
-- Keys: job, jobs, job_due, audit_log, open, run (the open run of a one-shot, as the caller read
--   it; else the job), run_due (of that run's lane), counters, nudge, deadlines
-- Gates: the keys of the gates in the argument gates
-- Args: now, job_name, pending (as the caller read it), by (the user who asks for the change, or
--   ''), open_run (of a one-shot, as the caller read it, or ''), gates (the gates that runs of the
--   job have to pass, and the gates of the open run)
-- Reply paused
-- Reply already
-- Reply unknown
-- Reply stale
-- Reply places: the gates at which the open run has places; the caller must repeat the call with
--   them
-- Reply wrong_type: key, found, wanted

local bad = gate_wrong_type(k.gates, gate_names(gates))
if bad then return bad end
local job = redis.call('HMGET', k.job, 'rev', 'ended', 'pending', 'paused', 'once')
if not job[1] or job[2] then return {'unknown'} end
if job[4] then return {'already'} end
if (job[3] or '') ~= pending then return {'stale'} end
local paused_run, run = pending, nil
if job[5] == '1' and paused_run == '' then
  local open = redis.call('ZRANGE', k.open, 0, 0)[1] or ''
  if open ~= open_run then return {'stale'} end
  if open ~= '' then run = redis.call('HMGET', k.run, 'state', 'fence', 'places') end
  if run and (run[1] ~= 'scheduled' or run[2] or not run[3]) then run = nil end
  local gates_bad = run and missing_places(k.gates, run[3])
  if gates_bad then return gates_bad end
  if run then paused_run = open end
end
redis.call('HSET', k.job, 'paused', int(now), 'pending', '')
if paused_run ~= '' then redis.call('HSET', k.job, 'paused_run', paused_run) end
redis.call('ZADD', k.jobs, PARKED, job_name)
note_change(k.audit_log, now, 'paused', by, {})
if pending ~= '' then redis.call('ZREM', k.job_due, pending) end
if run then
  leave_gates(k, paused_run, gate_names(run[3]), 'left', now)
  redis.call('ZREM', k.run_due, paused_run)
  redis.call('ZREM', k.open, paused_run)
  unwatch_behind(k, paused_run)
  redis.call('DEL', k.run)
end
wake_groups(k, gate_names(gates), now)
return {'paused'}
