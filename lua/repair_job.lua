#!lua flags=allow-oom
-- Repairs the indexes of one job to match its record: makes the planned run due or plans a new run,
-- and corrects the job's index entries. Also makes the first waiting run ready if no other step
-- would.
-- A run that was planned too late, because Redis' clock was ahead, is replaced by the given run.
-- `handled` then keeps the time up to which occurrences were handled, so that none of these is
-- planned again.
-- A one-shot that ended without its run, because that clock passed its time, is live again.
-- Guard: the job's revision and planned run are as the caller read them; the script checks
-- everything else again. Correct data is not changed.
-- A planned run is replaced only if it is not ready, has no record, and is due later than the given
-- run. The given run has no record, or is recorded as missed although its time is still ahead.
-- A one-shot whose unique key another job owns by now stays ended.
-- Keys: job, jobs, finished, job_due (of the job's lane as the caller read it), open, waiting,
--   pending_run, planted_run, counters, nudge, backfill, backfills, job_gates, manual, history,
--   job_history, unique (the unique key of the job; the job if it has none), uniques
-- Keys of each item: due (of every lane)
-- Args: now, job_name, rev (as the caller read it, or ''), pending (as the caller read it, or ''),
--   planted (the given run, which is planned if the job has no planned run, or ''), planted_due,
--   planted_ready, pending_ready (the ready time for the planned run, if the due set lacks it),
--   gate_entry (the job's entry in the index by first gate, or ''), anchor (the new anchor of
--   `every`, if the given run replaces what a clock that was ahead planned or ended; '' if it must
--   not), unique_mode (refuse, debounce or throttle, or '')
-- Reply repaired: a text for each repair
-- Reply sound: the data was correct
-- Reply stale: the job changed; the caller must read the job again
-- Reply occupied: the given run already has a record
-- Reply wrong_type: key, found, wanted

for at = 1, item_count do
  local bad = wrong_item_type(at)
  if bad then return bad end
end
-- Adds a time to `handled` and keeps the last HANDLED times. There may be several, because the
-- clock may be stepped again before such a time has come.
local HANDLED = 8
local function note_handled(text, at)
  local times = {}
  for time in string.gmatch(text or '', '%d+') do
    if time ~= int(at) then times[#times + 1] = time end
  end
  times[#times + 1] = int(at)
  return table.concat(times, ' ', math.max(#times - HANDLED, 0) + 1)
end
local name = job_name
local job = redis.call('HMGET', k.job, 'rev', 'pending', 'paused', 'paused_run', 'ended', 'ended_at', 'once', 'delay', 'since', 'handled', 'unique')
if (job[1] or '') ~= rev or (job[2] or '') ~= pending then return {'stale'} end
local reply = {'repaired'}
local function note(word) reply[#reply + 1] = word end
local function leave_due()
  for at = 1, item_count do redis.call('ZREM', item(at).due, pending) end
  redis.call('ZREM', k.job_due, pending)
end

-- Returns true if the given run has no record. Deletes a record that says missed before the run's
-- time came, because the clock was ahead then.
local function clear_planted()
  if redis.call('EXISTS', k.planted_run) == 0 then return true end
  local found_run = redis.call('HMGET', k.planted_run, 'state', 'reason', 'fence', 'skipped_count')
  if anchor == '' or found_run[1] ~= 'skipped' or found_run[2] ~= 'missed' or found_run[3] or tonumber(planted_due) <= now then return false end
  add_to_counter(k.counters, 'skipped', -math.max(whole(found_run[4], COUNT), 1))
  redis.call('ZREM', k.history, planted)
  redis.call('ZREM', k.job_history, planted)
  redis.call('DEL', k.planted_run)
  -- The run gets its deadlines again when it is due.
  if redis.call('HGET', k.job, 'watched') == planted then redis.call('HDEL', k.job, 'watched') end
  return true
end

-- Returns true for a one-shot that ended before the time of its only run, if the job may be live
-- again.
local function has_ended_early()
  local owner = job[11] and redis.call('HGET', k.unique, 'job')
  return anchor ~= '' and planted ~= '' and job[5] == 'finished' and job[7] == '1' and (not owner or owner == name)
    and tonumber(planted_due) > now
end

-- Has the schedule of the job apply from before the given run. Occurrences up to `last` were
-- handled, or are planned again.
local function count_anew(last)
  set_rev(k.job, job[1], int(math.max(whole(job[1], FENCE - 1) + 1, micros)))
  redis.call('HSET', k.job, 'anchor', anchor,
    'since', int(math.min(whole(job[9], PARKED), tonumber(planted_due) - 1)))
  if (job[8] or '') == '' then redis.call('HSET', k.job, 'handled', note_handled(job[10], last)) end
end

-- Nodes search only the jobs in this list for backfill runs.
local backfill = redis.call('ZCARD', k.backfill)
if backfill > 0 and redis.call('ZADD', k.backfills, 'NX', now, name) > 0 then note('added to the index of jobs with a backfill') end
if backfill == 0 and redis.call('ZREM', k.backfills, name) > 0 then note('removed from the index of jobs with a backfill') end
if not job[1] then
  if redis.call('ZREM', k.jobs, name) + redis.call('ZREM', k.finished, name) > 0 then note('removed from the indexes of jobs') end
elseif job[5] and has_ended_early() and clear_planted() then
  redis.call('HDEL', k.job, 'ended', 'ended_at')
  redis.call('ZREM', k.finished, name)
  if job[11] then
    redis.call('HSET', k.unique, 'job', name, 'mode', unique_mode, 'since', int(now))
    redis.call('ZADD', k.uniques, planted_due, job[11])
  end
  count_anew(PARKED - 1)
  plant_pending(k, name, planted, planted_due, planted_ready)
  if gate_entry ~= '' then set_gate_entry(k.job_gates, k.job, gate_entry) end
  note('run ' .. planted .. ' planned again')
elseif job[5] then
  if not redis.call('ZSCORE', k.finished, name) then
    local ended = whole(job[6], PARKED)
    redis.call('ZADD', k.finished, ended > 0 and ended or now, name)
    note('added to the index of ended jobs')
  end
  if pending ~= '' then
    redis.call('HSET', k.job, 'pending', '')
    leave_due()
    note('planned run removed from the due set')
  end
  if redis.call('ZREM', k.jobs, name) > 0 then note('removed from the index of live jobs') end
else
  local state = pending ~= '' and redis.call('HGET', k.pending_run, 'state')
  -- The end of an open run plans the next run of a job with a delay.
  if (job[8] or '') ~= '' and redis.call('ZCARD', k.open) + redis.call('ZCARD', k.waiting) > 0 then planted = '' end
  local is_over = state and state ~= 'scheduled'
  local ready = pending ~= '' and redis.call('ZSCORE', k.job_due, pending)
  local due_ms = whole(string.match(pending, '@(%d+)'), PARKED)
  local is_far = anchor ~= '' and planted ~= '' and not job[3] and not state and ready and tonumber(ready) > now
    and tonumber(planted_due) < due_ms
  if is_over or (pending == '' and not job[3] and planted ~= '') then
    if planted ~= '' and not clear_planted() then
      if job[7] ~= '1' or is_over then return {'occupied', planted} end
      end_or_plan_job(k, planted, name, now)
      if not redis.call('HGET', k.job, 'ended') then return {'occupied', planted} end
      note('job ended, because its only run has ended')
      return reply
    end
    if is_over then leave_due() end
    if anchor ~= '' and planted ~= '' then count_anew(PARKED - 1) end
    plant_pending(k, name, planted, planted_due, planted_ready)
    note(planted ~= '' and 'run ' .. planted .. ' planned' or 'ended run removed from the plan')
    pending = planted
    end_or_plan_job(k, pending, name, now)
    if redis.call('HGET', k.job, 'ended') then return reply end
  elseif is_far then
    if not clear_planted() then return {'occupied', planted} end
    count_anew(due_ms - 1)
    plant_pending(k, name, planted, planted_due, planted_ready)
    leave_due()
    pending = planted
    note('run ' .. planted .. ' planned instead of a later run')
  elseif pending ~= '' and job[3] then
    if not job[4] then redis.call('HSET', k.job, 'paused_run', pending) end
    redis.call('HSET', k.job, 'pending', '')
    leave_due()
    pending = ''
    note('planned run removed from the due set until the job is resumed')
  elseif pending ~= '' and not redis.call('ZSCORE', k.job_due, pending) then
    redis.call('ZADD', k.job_due, pending_ready, pending)
    for at = 1, item_count do
      if item(at).due ~= k.job_due then redis.call('ZREM', item(at).due, pending) end
    end
    nudge_if_head(k.nudge, k.job_due, pending)
    note('planned run added to the due set')
  end
  local wanted = pending ~= '' and tonumber(string.match(pending, '@(%d+)')) or PARKED
  local found = redis.call('ZSCORE', k.jobs, name)
  if not found or tonumber(found) ~= wanted then
    redis.call('ZADD', k.jobs, wanted, name)
    note(found and 'score in the index of live jobs corrected' or 'added to the index of live jobs')
  end
  -- A job on each node has its entry without a planned run.
  local is_listed = pending ~= '' or string.sub(gate_entry, 1, 2) == '@@'
  if is_listed and gate_entry ~= '' and not redis.call('ZSCORE', k.job_gates, gate_entry) then
    set_gate_entry(k.job_gates, k.job, gate_entry)
    note('added to the index of jobs by first gate')
  end
end
if redis.call('ZCARD', k.open) == 0 and redis.call('ZCARD', k.waiting) > 0 and manual_runs_out(k) == 0 then
  free_first_waiting(k, now)
  note('first waiting run made ready')
end
if not reply[2] then return {'sound'} end
return reply
