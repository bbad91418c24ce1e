#!lua
-- Gives a dead letter a new retry budget. The run becomes ready now, or waits for an open run of
-- its job. Redis itself refuses this script when memory is full, because the script adds a run.
-- Guard: the run is failed, timed_out or lost, and its last fence is as the caller read it. Its job
-- is live or a finished one-shot, at the revision that the caller read, and its definition fits the
-- run.
-- A repeated call replies `already`, because the run has another state or another fence.
-- Keys: run, job, job_due, open, waiting, history, job_history, dead, job_dead, finished, counters,
--   nudge, audit_log, deadlines, manual
-- Args: now, id, job_name, due_ms, kind (regular or manual), fence (of the last attempt, as the
--   caller read it), rev (of the job, or ''), lane (of the job), overlap (allow, or wait), past
--   (the last attempt's record as JSON), by (the user who asks for the change, or '')
-- Reply retried
-- Reply waiting: the run waits for an open run of its job
-- Reply already: state; the run was already retried
-- Reply over: state, finished_at; the run is not a dead letter
-- Reply unknown
-- Reply gone: how its job ended, or ''
-- Reply former: the run belongs to an earlier job of this name
-- Reply stale: the job changed; the caller must read the job again
-- Reply wrong_type: key, found, wanted

local run = redis.call('HMGET', k.run, 'state', 'fence', 'attempt', 'finished_at', 'rev')
if not run[1] then return {'unknown'} end
if run[1] == 'scheduled' or run[1] == 'running' then return {'already', run[1]} end
if not DEAD[run[1]] then return {'over', run[1], run[4] or ''} end
if (run[2] or '') ~= fence then return {'already', run[1]} end
local job = redis.call('HMGET', k.job, 'rev', 'ended', 'notify', 'same_since')
if not job[1] or job[2] and job[2] ~= 'finished' then return {'gone', job[2] or ''} end
if job[1] ~= rev then return {'stale'} end
if is_former(run[5], job[4] or job[1]) then return {'former'} end

-- The job counts as ended now, so that its definition is kept until the run ends.
if job[2] then redis.call('ZADD', k.finished, now, job_name) end
local waits = overlap == 'wait' and redis.call('ZCARD', k.open) > 0
if is_manual(id) then redis.call('ZADD', k.manual, due_ms, id) end
if waits then
  redis.call('ZADD', k.waiting, due_ms, id)
  add_to_counter(k.counters, 'waiting', 1)
else
  if kind == 'regular' then redis.call('ZADD', k.open, due_ms, id) end
  redis.call('ZADD', k.job_due, now, id)
end
-- The deadline for the end still applies. A deadline that has passed does not apply to a run that
-- an operator asks for.
local within = kind == 'regular' and tonumber(string.match(job[3] or '', 'finish=(%d+)'))
if within and tonumber(due_ms) + within > now then
  redis.call('ZADD', k.deadlines, int(tonumber(due_ms) + within), id .. ' finish')
end
local attempt = whole(run[3], COUNT)
if redis.call('HEXISTS', k.run, 'past:' .. attempt) == 0 then keep_past(k.run, attempt, past) end
redis.call('HSET', k.run, 'state', 'scheduled', 'queue', lane, 'ready', int(now), 'reason', '', 'failures', 0, 'recoveries', 0,
  'unclear', 0, 'retried_at', int(now))
redis.call('HDEL', k.run, 'finished_at')
redis.call('ZREM', k.dead, id)
redis.call('ZREM', k.job_dead, id)
redis.call('ZREM', k.history, id)
redis.call('ZREM', k.job_history, id)
add_to_counter(k.counters, 'retried', 1)
note_change(k.audit_log, now, 'run retried', by, {run = id})
if waits then return {'waiting'} end
nudge_if_head(k.nudge, k.job_due, id)
return {'retried'}
