#!lua
-- Sets the time before which the next run of a job does not start, because a run of the job or an
-- operator asks for it. A planned run that would start earlier starts at that time. If no run is
-- planned before that time, a run is planned for it, beside the schedule.
-- In an alternating group the time is that of the next turn, whoever has it.
-- Guard: the job is live and not paused, and as the caller read it. A repeated call replies the
-- same.
-- Keys: job, job_due (of the job's lane), run (to plan), manual, nudge, audit_log, deadlines,
--   old_run (the run that an earlier call planned, else the job)
-- Gates: the keys of the gates in the argument gates
-- Args: now, job_name, lane (of the job, as the caller read it), pending (as the caller read it, or
--   ''), at, id (of the run to plan), old (the run that an earlier call planned, as the caller read
--   it, or ''), asked_by (the run or the user who asks), by (the user who asks, or '' for a run),
--   gates (the group of the job, or '')
-- Reply postponed: the planned run
-- Reply planted: the run that was planned
-- Reply turn: the group
-- Reply paused
-- Reply unknown
-- Reply stale: the job changed; the caller must read the job again
-- Reply wrong_type: key, found, wanted

local bad = gate_wrong_type(k.gates, gate_names(gates))
if bad then return bad end
local job = redis.call('HMGET', k.job, 'rev', 'ended', 'queue', 'pending', 'paused', 'next_run', 'notify')
if not job[1] or job[2] then return {'unknown'} end
if job[5] then return {'paused'} end
if job[3] ~= lane or (job[4] or '') ~= pending or (job[6] or '') ~= old then return {'stale'} end
local ms = tonumber(at)

local function note()
  redis.call('HSET', k.job, 'next_at', at, 'next_by', asked_by)
  if by ~= '' then note_change(k.audit_log, now, 'next time set', by, {next_at = ms}) end
  count_change(k.nudge, 'jobs')
end

local name = gate_names(gates)[1]
local group = name and k.gates[name]
if group and group_rules(group).order then
  note()
  redis.call('HSET', group.state, 'not_before', at)
  set_gate_timer(k.gates.timers, group, now)
  wake_nodes(k.nudge, 'due')
  return {'turn', group.of}
end

-- The time replaces that of an earlier call, unless the run of that call has begun.
if old ~= '' and old ~= id then
  local run = redis.call('HMGET', k.old_run, 'state', 'fence')
  if run[1] == 'scheduled' and not run[2] and redis.call('ZREM', k.job_due, old) == 1 then
    redis.call('ZREM', k.manual, old)
    redis.call('DEL', k.old_run)
  end
  redis.call('HDEL', k.job, 'next_run')
end
local ready = pending ~= '' and redis.call('ZSCORE', k.job_due, pending)
if ready and tonumber(ready) <= ms then
  note()
  redis.call('ZADD', k.job_due, at, pending)
  if job[7] then
    unwatch(k.deadlines, pending)
    watch(k.deadlines, k.nudge, pending, at, job[7], false)
  end
  return {'postponed', pending}
end
if redis.call('EXISTS', k.run) == 0 then
  note()
  redis.call('HSET', k.run, 'job', job_name, 'due', string.match(id, '@(%d+)'), 'queue', lane, 'kind', 'manual', 'rev', job[1],
    'state', 'scheduled', 'planted_at', int(now), 'asked_by', asked_by)
  redis.call('HSET', k.job, 'next_run', id)
  redis.call('ZADD', k.manual, string.match(id, '@(%d+)'), id)
  redis.call('ZADD', k.job_due, at, id)
  nudge_if_head(k.nudge, k.job_due, id)
end
return {'planted', id}
