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
-- KEYS 1 job
-- KEYS 2 jobs
-- KEYS 3 finished
-- KEYS 4 job_due: of the job's lane as the caller read it
-- KEYS 5 open
-- KEYS 6 waiting
-- KEYS 7 pending_run
-- KEYS 8 planted_run
-- KEYS 9 counters
-- KEYS 10 nudge
-- KEYS 11 backfill
-- KEYS 12 backfills
-- KEYS 13 job_gates
-- KEYS 14 manual
-- KEYS 15 history
-- KEYS 16 job_history
-- KEYS 17 unique: the unique key of the job; the job if it has none
-- KEYS 18 uniques
-- KEYS* due: of every lane
-- ARGV 1 now
-- ARGV 2 job_name
-- ARGV 3 rev: as the caller read it, or ''
-- ARGV 4 pending: as the caller read it, or ''
-- ARGV 5 planted: the given run, which is planned if the job has no planned run, or ''
-- ARGV 6 planted_due
-- ARGV 7 planted_ready
-- ARGV 8 pending_ready: the ready time for the planned run, if the due set lacks it
-- ARGV 9 gate_entry: the job's entry in the index by first gate, or ''
-- ARGV 10 anchor: the new anchor of `every`, if the given run replaces what a clock that was ahead
--   planned or ended; '' if it must not
-- ARGV 11 unique_mode: refuse, debounce or throttle, or ''
-- Reply repaired: a text for each repair
-- Reply sound: the data was correct
-- Reply stale: the job changed; the caller must read the job again
-- Reply occupied: the given run already has a record
-- Reply wrong_type: key, found, wanted
local now, micros = clock(ARGV[1])
local k = {job = KEYS[1], jobs = KEYS[2], finished = KEYS[3], job_due = KEYS[4], open = KEYS[5], waiting = KEYS[6], counters = KEYS[9],
  nudge = KEYS[10], manual = KEYS[14]}
local types = {k.job, 'hash', k.jobs, 'zset', k.finished, 'zset', k.job_due, 'zset', k.open, 'zset', k.waiting, 'zset', KEYS[7], 'hash',
  KEYS[8], 'hash', k.counters, 'hash', KEYS[11], 'zset', KEYS[12], 'zset', KEYS[13], 'zset', k.manual, 'zset', KEYS[15], 'zset', KEYS[16], 'zset',
  KEYS[17], 'hash', KEYS[18], 'zset'}
for at = 19, #KEYS do
  types[#types + 1] = KEYS[at]
  types[#types + 1] = 'zset'
end
local bad = wrong_type(types)
if bad then return bad end
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
local name, planted = ARGV[2], ARGV[5]
local job = redis.call('HMGET', k.job, 'rev', 'pending', 'paused', 'paused_run', 'ended', 'ended_at', 'once', 'delay', 'since', 'handled', 'unique')
local pending = job[2] or ''
if (job[1] or '') ~= ARGV[3] or pending ~= ARGV[4] then return {'stale'} end
local reply = {'repaired'}
local function note(word) reply[#reply + 1] = word end
local function leave_due()
  for at = 19, #KEYS do redis.call('ZREM', KEYS[at], pending) end
  redis.call('ZREM', k.job_due, pending)
end

-- Returns true if the given run has no record. Deletes a record that says missed before the run's
-- time came, because the clock was ahead then.
local function clear_planted()
  if redis.call('EXISTS', KEYS[8]) == 0 then return true end
  local found_run = redis.call('HMGET', KEYS[8], 'state', 'reason', 'fence', 'skipped_count')
  if ARGV[10] == '' or found_run[1] ~= 'skipped' or found_run[2] ~= 'missed' or found_run[3] or tonumber(ARGV[6]) <= now then return false end
  add_to_counter(k.counters, 'skipped', -math.max(whole(found_run[4], COUNT), 1))
  redis.call('ZREM', KEYS[15], planted)
  redis.call('ZREM', KEYS[16], planted)
  redis.call('DEL', KEYS[8])
  -- The run gets its deadlines again when it is due.
  if redis.call('HGET', k.job, 'watched') == planted then redis.call('HDEL', k.job, 'watched') end
  return true
end

-- Returns true for a one-shot that ended before the time of its only run, if the job may be live
-- again.
local function has_ended_early()
  local owner = job[11] and redis.call('HGET', KEYS[17], 'job')
  return ARGV[10] ~= '' and planted ~= '' and job[5] == 'finished' and job[7] == '1' and (not owner or owner == name)
    and tonumber(ARGV[6]) > now
end

-- Has the schedule of the job apply from before the given run. Occurrences up to `last` were
-- handled, or are planned again.
local function count_anew(last)
  redis.call('HSET', k.job, 'rev', int(math.max(whole(job[1], FENCE - 1) + 1, micros)), 'anchor', ARGV[10],
    'since', int(math.min(whole(job[9], PARKED), tonumber(ARGV[6]) - 1)))
  if (job[8] or '') == '' then redis.call('HSET', k.job, 'handled', note_handled(job[10], last)) end
end

-- Nodes search only the jobs in this list for backfill runs.
local backfill = redis.call('ZCARD', KEYS[11])
if backfill > 0 and redis.call('ZADD', KEYS[12], 'NX', now, name) > 0 then note('added to the index of jobs with a backfill') end
if backfill == 0 and redis.call('ZREM', KEYS[12], name) > 0 then note('removed from the index of jobs with a backfill') end
if not job[1] then
  if redis.call('ZREM', k.jobs, name) + redis.call('ZREM', k.finished, name) > 0 then note('removed from the indexes of jobs') end
elseif job[5] and has_ended_early() and clear_planted() then
  redis.call('HDEL', k.job, 'ended', 'ended_at')
  redis.call('ZREM', k.finished, name)
  if job[11] then
    redis.call('HSET', KEYS[17], 'job', name, 'mode', ARGV[11], 'since', int(now))
    redis.call('ZADD', KEYS[18], ARGV[6], job[11])
  end
  count_anew(PARKED - 1)
  plant_pending(k, name, planted, ARGV[6], ARGV[7])
  if ARGV[9] ~= '' then set_gate_entry(KEYS[13], k.job, ARGV[9]) end
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
  local state = pending ~= '' and redis.call('HGET', KEYS[7], 'state')
  -- The end of an open run plans the next run of a job with a delay.
  if (job[8] or '') ~= '' and redis.call('ZCARD', k.open) + redis.call('ZCARD', k.waiting) > 0 then planted = '' end
  local is_over = state and state ~= 'scheduled'
  local ready = pending ~= '' and redis.call('ZSCORE', k.job_due, pending)
  local due_ms = whole(string.match(pending, '@(%d+)'), PARKED)
  local is_far = ARGV[10] ~= '' and planted ~= '' and not job[3] and not state and ready and tonumber(ready) > now
    and tonumber(ARGV[6]) < due_ms
  if is_over or (pending == '' and not job[3] and planted ~= '') then
    if planted ~= '' and not clear_planted() then
      if job[7] ~= '1' or is_over then return {'occupied', planted} end
      end_or_plan_job(k, planted, name, now)
      if not redis.call('HGET', k.job, 'ended') then return {'occupied', planted} end
      note('job ended, because its only run has ended')
      return reply
    end
    if is_over then leave_due() end
    if ARGV[10] ~= '' and planted ~= '' then count_anew(PARKED - 1) end
    plant_pending(k, name, planted, ARGV[6], ARGV[7])
    note(planted ~= '' and 'run ' .. planted .. ' planned' or 'ended run removed from the plan')
    pending = planted
    end_or_plan_job(k, ARGV[4], name, now)
    if redis.call('HGET', k.job, 'ended') then return reply end
  elseif is_far then
    if not clear_planted() then return {'occupied', planted} end
    count_anew(due_ms - 1)
    plant_pending(k, name, planted, ARGV[6], ARGV[7])
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
    redis.call('ZADD', k.job_due, ARGV[8], pending)
    for at = 19, #KEYS do
      if KEYS[at] ~= k.job_due then redis.call('ZREM', KEYS[at], pending) end
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
  if pending ~= '' and ARGV[9] ~= '' and not redis.call('ZSCORE', KEYS[13], ARGV[9]) then
    set_gate_entry(KEYS[13], k.job, ARGV[9])
    note('added to the index of jobs by first gate')
  end
end
if redis.call('ZCARD', k.open) == 0 and redis.call('ZCARD', k.waiting) > 0 and manual_runs_out(k) == 0 then
  free_first_waiting(k, now)
  note('first waiting run made ready')
end
if not reply[2] then return {'sound'} end
return reply
