#!lua
-- Creates or edits a job, and plans its first run. Redis itself refuses this script when memory is
-- full, because the script only adds data.
-- Guard: the name is free, or the job is of the same source kind and at the revision that the
-- caller read.
-- An equal definition changes nothing, unless the zone data changed or the stored definition is
-- damaged.
-- A repeated call with the same token returns the same reply, even if the job has ended by then.
-- A unique key must be free or owned by this job, and its owner must be the job that the caller
-- read.
-- A debouncing definition replaces the definition of an owner that has not begun, at any revision.
-- It also moves the owner's planned run, even if that run is due.
-- Runs that wait at the gates named in `gates` are checked again.
-- KEYS 1 job
-- KEYS 2 jobs
-- KEYS 3 job_due: of the new definition's lane
-- KEYS 4 old_due: the due set of the lane that the caller read
-- KEYS 5 run: of the run to plan
-- KEYS 6 finished
-- KEYS 7 history
-- KEYS 8 job_history
-- KEYS 9 source: the list of the job's source, for a file job
-- KEYS 10 nudge
-- KEYS 11 passed_run: the first run of the skipped range
-- KEYS 12 counters
-- KEYS 13 audit_log
-- KEYS 14 open
-- KEYS 15 lanes
-- KEYS 16 not_while
-- KEYS 17 not_while_recent
-- KEYS 18 unique: the unique key of the definition; the job if the definition names none
-- KEYS 19 uniques
-- KEYS 20 holder: the job that owns the unique key, as the caller read it, else the job
-- KEYS 21 old_unique: the unique key that the job had, as the caller read it, else the job
-- KEYS 22 notices
-- KEYS 23 job_gates
-- KEYS 24 schedule_versions
-- KEYS 25 backfill
-- KEYS 26 backfills
-- KEYS 27 deadlines
-- KEYS+ gate_timers, then holders, waiters, by_job, by_lane, lanes, state and rules: of each gate
-- ARGV 1 now
-- ARGV 2 job_name
-- ARGV 3 definition
-- ARGV 4 hash
-- ARGV 5 rev: as the caller read it, or '' for a name that was free
-- ARGV 6 kind: file or api
-- ARGV 7 source_name
-- ARGV 8 token
-- ARGV 9 tz
-- ARGV 10 lane
-- ARGV 11 once: 1 for a one-shot, else 0
-- ARGV 12 change: schedule (plan again), zone (plan again; the definition is the same) or rest
--   (keep the planned run)
-- ARGV 13 planted: the id of the run to plan, or ''
-- ARGV 14 planted_due
-- ARGV 15 planted_ready
-- ARGV 16 anchor
-- ARGV 17 existing: edit, or refuse to change an existing job
-- ARGV 18 planned: the pending or paused run, as the caller read it, or ''
-- ARGV 19 passed: the first run of the skipped range under the old schedule, which is recorded now,
--   or ''
-- ARGV 20 passed_last
-- ARGV 21 passed_count
-- ARGV 22 by: the user who asks for the change, or ''
-- ARGV 23 old_schedule: the old schedule in words, if the schedule changes
-- ARGV 24 new_schedule
-- ARGV 25 delay: in ms, if the end of each run plans the next run, else ''
-- ARGV 26 max_runs: the most runs of the job, or ''
-- ARGV 27 not_while: the jobs during whose runs this job must not run
-- ARGV 28 unique_key: or ''
-- ARGV 29 unique_mode: refuse, debounce or throttle
-- ARGV 30 unique_for: how long the job owns the key from the add, in ms, or '' until the job ends
-- ARGV 31 holder_name: the job that owns the unique key, as the caller read it, or ''
-- ARGV 32 old_key: as the caller read it, or ''
-- ARGV 33 old_queue: as the caller read it, or ''
-- ARGV 34 notify: the notices and deadlines of the job's runs
-- ARGV 35 gates: the gates of the old definition, if the new definition changes the gates or the
--   schedule
-- ARGV 36 gate_entry: the job's entry in the index by first gate, or ''
-- Reply created
-- Reply updated
-- Reply unchanged
-- Reply exists: source kind of the job with this name
-- Reply other_kind: source kind of the job with this name, which differs from `kind`
-- Reply taken: name of the job that owns the unique key
-- Reply stale: the job changed; the caller must read the job again
-- Reply occupied: the run to plan already has a record
-- Reply wrong_type: key, found, wanted
local now, micros = clock(ARGV[1])
local k = {job = KEYS[1], jobs = KEYS[2], job_due = KEYS[3], run = KEYS[5], history = KEYS[7], counters = KEYS[12], nudge = KEYS[10],
  deadlines = KEYS[27], gates = gates_of(ARGV[35])}
local bad = wrong_type({k.jobs, 'zset', k.job_due, 'zset', KEYS[13], 'zset', k.job, 'hash', KEYS[4], 'zset', k.run, 'hash',
  KEYS[6], 'zset', k.history, 'zset', KEYS[8], 'zset', KEYS[9], 'hash', KEYS[11], 'hash', KEYS[12], 'hash', KEYS[14], 'zset',
  KEYS[15], 'zset', KEYS[16], 'zset', KEYS[17], 'zset', KEYS[22], 'zset', KEYS[23], 'zset', KEYS[24], 'zset', KEYS[25], 'zset',
  KEYS[26], 'zset', k.deadlines, 'zset'})
if not bad and ARGV[28] .. ARGV[32] ~= '' then
  bad = wrong_type({KEYS[18], 'hash', KEYS[19], 'zset', KEYS[20], 'hash', KEYS[21], 'hash'})
end
bad = bad or gate_wrong_type(k.gates, gate_names(ARGV[35]))
if bad then return bad end
local name, planted, kind = ARGV[2], ARGV[13], ARGV[6]
local job = redis.call('HMGET', k.job, 'rev', 'ended', 'kind', 'token', 'pending', 'paused_run', 'paused', 'applied', 'first_rev', 'same_since')
local definition = job[1] and read_definition(k.job)
local is_live = job[1] and not job[2]

local is_rezoned = ARGV[12] == 'zone'
local function list_in_source()
  if kind == 'file' and not is_rezoned then
    redis.call('HSET', KEYS[9], name, ARGV[4])
    redis.call('HSET', k.job, 'src:' .. ARGV[7], ARGV[4])
  end
end

-- Returns a reply if another job owns the unique key, or if the caller must read again; else nil.
-- Sets `is_burst` if this job owns the key, has not begun, and gets the new definition.
local key, is_burst = ARGV[28], false
local function judge_unique()
  local lock = redis.call('HMGET', KEYS[18], 'job', 'until', 'mode')
  if (lock[1] or '') ~= ARGV[31] then return {'stale'} end
  if not lock[1] then return end
  local holder = redis.call('HMGET', KEYS[20], 'rev', 'ended', 'unique', 'pending', 'paused_run')
  local is_there = holder[1] and not holder[2] and holder[3] == key
  local is_own = is_there and lock[1] == name
  if ARGV[29] == 'debounce' and lock[3] == 'debounce' then
    local is_to_come = is_there and ((holder[4] or '') ~= '' or holder[5])
    -- The caller read another state of the owner: the owner must be changed instead, or has begun
    -- since then.
    if is_to_come and not is_own or is_own and not is_to_come and ARGV[18] ~= '' then return {'stale'} end
    is_burst = is_to_come and ARGV[18] ~= ''
    return
  end
  local is_held = is_there
  if lock[2] then is_held = now < whole(lock[2], FENCE) end
  if is_held and not (is_own and ARGV[17] == 'edit') then return {'taken', lock[1]} end
end

if job[4] == ARGV[8] then return {job[8] or 'created'} end
if is_live and job[3] ~= kind then return {'other_kind', job[3]} end
local in_the_way = key ~= '' and judge_unique()
if in_the_way then return in_the_way end
if is_live then
  if ARGV[17] == 'refuse' then return {'exists', job[3]} end
  if not is_rezoned and definition == ARGV[3] then
    list_in_source()
    return {'unchanged'}
  end
  if is_burst then
    -- The caller must have read the lane of the planned run, which this call moves. Other changes
    -- of the job since the read are overwritten.
    if ARGV[5] == '' or redis.call('HGET', k.job, 'queue') ~= ARGV[33] then return {'stale'} end
  elseif job[1] ~= ARGV[5] then
    return {'stale'}
  end
  if ARGV[19] ~= '' and (job[7] and job[6] or job[5] or '') ~= ARGV[18] then return {'stale'} end
elseif ARGV[5] ~= '' then
  return {'stale'}
end

-- A run with a record is not planned again. The exception is a run of an ended job that was
-- cancelled before any attempt.
local planted_is_new = planted ~= '' and planted ~= job[5]
if planted_is_new and redis.call('EXISTS', k.run) == 1 then
  local run = redis.call('HMGET', k.run, 'state', 'attempt')
  if is_live or run[1] ~= 'cancelled' or run[2] then return {'occupied', planted} end
  redis.call('DEL', k.run)
  redis.call('ZREM', k.history, planted)
  redis.call('ZREM', KEYS[8], planted)
end

-- While a run is open, its end will plan the next run.
if ARGV[25] ~= '' and is_live and redis.call('ZCARD', KEYS[14]) > 0 then planted = '' end

note_lane(KEYS[15], k.nudge, ARGV[10], now)
-- Makes the job the owner of the unique key in its definition, and of no other. The score in
-- `uniques` is the time of the next check of the key.
local function hold_unique()
  if key ~= '' then
    local lock = redis.call('HMGET', KEYS[18], 'job', 'since', 'until')
    local is_kept = is_live and lock[1] == name and (not lock[3] or now < whole(lock[3], FENCE))
    -- The first add of another burst starts the time of the key again.
    if ARGV[29] == 'debounce' and not is_burst then is_kept = false end
    local since = is_kept and tonumber(lock[2] or '') or now
    local look = math.max(tonumber(ARGV[14]) or 0, now)
    redis.call('HSET', KEYS[18], 'job', name, 'mode', ARGV[29], 'since', int(since))
    if ARGV[30] == '' then
      redis.call('HDEL', KEYS[18], 'until')
    else
      look = since + tonumber(ARGV[30])
      redis.call('HSET', KEYS[18], 'until', int(look))
    end
    redis.call('ZADD', KEYS[19], look, key)
    redis.call('HSET', k.job, 'unique', key)
  elseif job[1] then
    redis.call('HDEL', k.job, 'unique')
  end
  if ARGV[32] ~= '' and ARGV[32] ~= key and redis.call('HGET', KEYS[21], 'job') == name then
    redis.call('DEL', KEYS[21])
    redis.call('ZREM', KEYS[19], ARGV[32])
  end
end

local function set_notify()
  if ARGV[34] ~= '' then redis.call('HSET', k.job, 'notify', ARGV[34]) elseif job[1] then redis.call('HDEL', k.job, 'notify', 'failing', 'judged_at') end
end

-- Makes the runs that wait at the job's former gates ready, so that their claims use the new
-- definition.
local function judge_anew()
  for _, gate_name in ipairs(gate_names(ARGV[35])) do
    local gate = k.gates[gate_name]
    local entries = redis.call('ZRANGEBYLEX', gate.by_job, '[' .. name .. ' ', '(' .. name .. '!', 'LIMIT', 0, 1000)
    for _, entry in ipairs(entries) do
      local id = string.match(entry, '(%S+)$')
      if redis.call('ZSCORE', gate.waiters, id) then
        redis.call('ZADD', k.job_due, now, id)
        stop_waiting(gate, id)
        release_gate(k.gates, gate_names(ARGV[35]), id, ARGV[10], now)
        add_to_counter(k.counters, 'waiting', -1)
      end
    end
    if entries[1] then
      set_gate_timer(k.gates.timers, gate, now)
      wake_nodes(k.nudge, 'due')
    end
  end
end

-- The new schedule covers all occurrences after `since`, and also a planned run that was computed
-- from an earlier reading of the clock.
local since = planted ~= '' and ARGV[11] ~= '1' and math.min(now, tonumber(ARGV[14]) - 1) or now
local rev = int(math.max(whole(job[1], FENCE - 1) + 1, micros))
count_change(k.nudge, 'jobs')
set_not_while(KEYS[16], KEYS[17], k.job, name, ARGV[27])
set_gate_entry(KEYS[23], k.job, ARGV[36])

-- Writes the definition, and what an edit can change, to the job's record.
local function set_job(fields)
  if job[1] then redis.call('HDEL', k.job, 'source', 'delay', 'max_runs', unpack(PIECES)) end
  add_filled(fields, {'source', ARGV[7], 'delay', ARGV[25], 'max_runs', ARGV[26]})
  add_filled(fields, definition_fields(ARGV[3]))
  redis.call('HSET', k.job, 'rev', rev, 'token', ARGV[8], 'queue', ARGV[10], 'once', ARGV[11], unpack(fields))
end

if not is_live then
  if job[1] then
    -- All occurrences of a one-shot belong to its schedule, even if the job ended before them.
    local ended = redis.call('HMGET', k.job, 'once', 'ended_at')
    note_schedule_version(KEYS[24], k.job, ended[1] == '1' and PARKED - 1 or whole(ended[2], PARKED - 1), now)
  end
  if job[1] then redis.call('HDEL', k.job, 'created_by') end
  set_job(add_filled({'kind', kind, 'tz', ARGV[9], 'anchor', ARGV[16], 'since', int(since), 'created_at', int(now), 'first_rev', rev,
    'same_since', job[1] and definition == ARGV[3] and (job[10] or job[9]) or rev}, {'created_by', ARGV[22]}))
  set_notify()
  -- One-shots have no entry in the audit log for their adding, because there may be very many of
  -- them. The record says who added the job.
  if ARGV[11] ~= '1' then note_change(KEYS[13], now, 'added', ARGV[22], {}) end
  list_in_source()
  hold_unique()
  plant_pending(k, name, planted, ARGV[14], ARGV[15])
  if job[1] then
    -- Nothing of an earlier job of this name is kept, and the files that listed it do not list the
    -- new job.
    redis.call('HDEL', k.job, 'applied', 'ended', 'ended_at', 'paused', 'paused_run', 'started_count', 'failing', 'judged_at', 'window', 'watched')
    redis.call('UNLINK', KEYS[25])
    redis.call('ZREM', KEYS[26], name)
    for _, notice in ipairs({'on_failure', 'on_recovered', 'on_success', 'on_late', 'ping'}) do redis.call('HDEL', k.job, 'suppressed:' .. notice) end
    redis.call('ZREM', KEYS[6], name)
    for _, field in ipairs(kind ~= 'file' and redis.call('HKEYS', k.job) or {}) do
      if string.sub(field, 1, 4) == 'src:' then redis.call('HDEL', k.job, field) end
    end
  end
  return {'created'}
end

-- The occurrences that passed after the planned run are recorded now, because the old schedule is
-- deleted afterwards.
if ARGV[12] ~= 'rest' and ARGV[19] ~= '' and redis.call('EXISTS', KEYS[11]) == 0 then
  local facts = add_range_fields(k.job, ARGV[20], ARGV[21],
    {'job', name, 'due', string.match(ARGV[19], '@(%d+)'), 'queue', ARGV[10], 'kind', 'regular', 'rev', rev})
  end_run({history = k.history, job_history = KEYS[8], run = KEYS[11], counters = KEYS[12], job = k.job, notices = KEYS[22], nudge = k.nudge,
    deadlines = k.deadlines}, ARGV[19], 'skipped', job[7] and 'paused' or 'missed', now, facts)
  if tonumber(ARGV[21]) > 1 then add_to_counter(KEYS[12], 'skipped', tonumber(ARGV[21]) - 1) end
end
local old = job[5]
local old_ready = old and old ~= '' and redis.call('ZSCORE', KEYS[4], old)
local is_owed = old_ready and tonumber(old_ready) <= now
if ARGV[12] ~= 'rest' and not is_burst then
  -- A run that was due but not ready is dropped, and its occurrence does not count.
  local due = tonumber(string.match(ARGV[18], '@(%d+)$') or '')
  local gives_way = due and due <= now and ARGV[19] == '' and not is_owed
  note_schedule_version(KEYS[24], k.job, gives_way and due - 1 or now, now)
end
set_job({'applied', 'updated'})
set_notify()
redis.call('HSETNX', k.job, 'tz', ARGV[9])
list_in_source()
if not is_rezoned then hold_unique() end
note_change(KEYS[13], now, 'edited', ARGV[22], ARGV[12] == 'schedule' and {old = ARGV[23], new = ARGV[24]} or {})
if ARGV[12] ~= 'rest' then
  redis.call('HSET', k.job, 'since', int(since))
  if job[7] then
    if job[6] and job[6] ~= planted then unwatch_planned(k, job[6]) end
    if planted == '' then redis.call('HDEL', k.job, 'paused_run') else redis.call('HSET', k.job, 'paused_run', planted) end
  elseif is_owed and not is_burst then
    -- The run is already due, so it is kept under any schedule. Its claim plans the first run of
    -- the new schedule.
    if KEYS[3] ~= KEYS[4] then
      redis.call('ZADD', k.job_due, old_ready, old)
      redis.call('ZREM', KEYS[4], old)
    end
  else
    plant_pending(k, name, planted, ARGV[14], ARGV[15])
    if old and old ~= '' and old ~= planted then unwatch_planned(k, old) end
    if old_ready and (old ~= planted or KEYS[3] ~= KEYS[4]) then redis.call('ZREM', KEYS[4], old) end
  end
elseif old_ready and KEYS[3] ~= KEYS[4] then
  redis.call('ZADD', k.job_due, old_ready, old)
  redis.call('ZREM', KEYS[4], old)
end
judge_anew()
wake_groups(k, gate_names(ARGV[35]), now)
return {'updated'}
