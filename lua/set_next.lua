#!lua
-- Sets the time before which no regular run of a job begins, because a run of the job or an
-- operator asks for it. A planned run that would be ready earlier waits until then. If no run is
-- planned before that time, a run is planned for it, beside the schedule.
-- In an alternating group the time is that of the next turn, whoever has it.
-- Guard: the job is live and not paused, and as the caller read it; a run that asks has its lease.
-- A repeated call replies the same.
-- Keys: job, job_due (of the job's lane), run (to plan), manual, nudge, audit_log, deadlines, open,
--   old_run (the run that an earlier call planned, else the job), asking_run (else the job)
-- Gates: the keys of the gates in the argument gates
-- Args: now, job_name, lane (of the job, as the caller read it), pending (as the caller read it, or
--   ''), at, id (of the run to plan), old (the run that an earlier call planned, as the caller read
--   it, or ''), asked_by (the run or the user who asks), asking_fence (of the run that asks, or ''),
--   by (the user who asks, or '' for a run), gates (the group of the job, or '')
-- Reply postponed: the planned run; '' if the end of the open run plans it
-- Reply planted: the run that was planned
-- Reply turn: the group
-- Reply paused
-- Reply unknown
-- Reply lost: the run that asks has lost its lease
-- Reply stale: the job changed; the caller must read the job again
-- Reply wrong_type: key, found, wanted

local bad = gate_wrong_type(k.gates, gate_names(gates))
if bad then return bad end
local job = redis.call('HMGET', k.job, 'rev', 'ended', 'queue', 'pending', 'paused', 'next_run', 'notify', 'next_own', 'delay')
if not job[1] or job[2] then return {'unknown'} end
if job[5] then return {'paused'} end
if asking_fence ~= '' then
  local asking = redis.call('HMGET', k.asking_run, 'state', 'fence')
  if asking[1] ~= 'running' or asking[2] ~= asking_fence then return {'lost'} end
end
local extra = job[6] or ''
if job[3] ~= lane or (job[4] or '') ~= pending or extra ~= old and extra ~= id then return {'stale'} end
local ms = tonumber(at)

-- Another revision makes each node read the job again before the next claim.
local function note()
  redis.call('HSET', k.job, 'next_at', at, 'next_by', asked_by, 'next_set_at', int(now))
  set_rev(k.job, job[1], int(math.max(whole(job[1], FENCE - 1) + 1, micros)))
  if by ~= '' then note_change(k.audit_log, now, 'next time set', by, {next_at = ms}) end
  count_change(k.nudge, 'jobs')
end

local name = gate_names(gates)[1]
local group = name and k.gates[name]
if group and group_rules(group).order then
  redis.call('HSET', group.state, 'not_before', at, 'not_before_set', int(now))
  if by ~= '' then note_change(k.audit_log, now, 'next time set', by, {next_at = ms}) end
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
-- The end of an open run plans the next run of a job with a `delay`.
if pending == '' and (job[9] or '') ~= '' and redis.call('ZCARD', k.open) > 0 then
  note()
  return {'postponed', ''}
end
local ready = pending ~= '' and redis.call('ZSCORE', k.job_due, pending)
if ready then
  -- The time at which the planned run is ready without any call of this script.
  local of, own = string.match(job[8] or '', '^(%S+) (%d+)$')
  own = of == pending and tonumber(own) or tonumber(ready)
  redis.call('HSET', k.job, 'next_own', pending .. ' ' .. int(own))
  redis.call('ZADD', k.job_due, int(math.max(own, ms)), pending)
  if own <= ms then
    note()
    if job[7] then
      unwatch(k.deadlines, pending)
      watch(k.deadlines, k.nudge, pending, at, job[7], false)
    end
    return {'postponed', pending}
  end
end
if redis.call('EXISTS', k.run) == 0 then
  note()
  redis.call('HSET', k.run, 'job', job_name, 'due', string.match(id, '@(%d+)'), 'queue', lane, 'kind', 'manual', 'rev',
    redis.call('HGET', k.job, 'rev'), 'state', 'scheduled', 'planted_at', int(now), 'asked_by', asked_by)
  redis.call('HSET', k.job, 'next_run', id)
  redis.call('ZADD', k.manual, string.match(id, '@(%d+)'), id)
  redis.call('ZADD', k.job_due, at, id)
  nudge_if_head(k.nudge, k.job_due, id)
end
return {'planted', id}
