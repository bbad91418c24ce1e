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
-- Runs that wait at the gates named in `gates` are checked again. A run that is due in the former lane,
-- such as a retry, moves to the new lane.
-- Keys: job, jobs, job_due (of the new definition's lane), old_due (the due set of the lane that
--   the caller read), run (of the run to plan), finished, history, job_history, source (the list of
--   the job's source, for a file job), nudge, passed_run (the first run of the skipped range),
--   counters, audit_log, open, manual, catch_up, lanes, not_while, not_while_recent, unique:any (the unique key of
--   the definition; the job if the definition names none), uniques:any, holder:any (the job that
--   owns the unique key, as the caller read it, else the job), old_unique:any (the unique key that
--   the job had, as the caller read it, else the job), notices, job_gates, schedule_versions,
--   backfill, backfills, deadlines, chains, chain_ends, chain
-- Gates: the keys of the gates in the argument gates
-- Args: now, job_name, definition, hash, rev (as the caller read it, or '' for a name that was
--   free), kind (file or api), source_name, token, tz, lane, once (1 for a one-shot, else 0),
--   change (schedule (plan again), zone (plan again; the definition is the same) or rest (keep the
--   planned run)), planted (the id of the run to plan, or ''), planted_due, planted_ready, anchor,
--   existing (edit, or refuse to change an existing job), planned (the pending or paused run, as
--   the caller read it, or ''), passed (the first run of the skipped range under the old schedule,
--   which is recorded now, or ''), passed_last, passed_count, by (the user who asks for the change,
--   or ''), old_schedule (the old schedule in words, if the schedule changes), new_schedule, delay
--   (in ms, if the end of each run plans the next run, else ''), max_runs (the most runs of the
--   job, or ''), not_while (the jobs during whose runs this job must not run), unique_key (or ''),
--   unique_mode (refuse, debounce or throttle), unique_for (how long the job owns the key from the
--   add, in ms, or '' until the job ends), holder_name (the job that owns the unique key, as the
--   caller read it, or ''), old_key (as the caller read it, or ''), old_queue (as the caller read
--   it, or ''), notify (the notices and deadlines of the job's runs), gates (the gates of the old
--   definition, if the new definition changes the gates or the schedule), gate_entry (the job's
--   entry in the index by first gate, or ''), after (the rule and the parents of the job, or '')
-- Reply created
-- Reply updated
-- Reply unchanged
-- Reply exists: source kind of the job with this name
-- Reply other_kind: source kind of the job with this name, which differs from `kind`
-- Reply taken: name of the job that owns the unique key
-- Reply stale: the job changed; the caller must read the job again
-- Reply occupied: the run to plan already has a record
-- Reply no_lane: the job needs a new lane, and no lane can be added
-- Reply wrong_type: key, found, wanted

local bad = unique_key .. old_key ~= ''
  and wrong_type({k.unique, 'hash', k.uniques, 'zset', k.holder, 'hash', k.old_unique, 'hash'})
  or gate_wrong_type(k.gates, gate_names(gates))
if bad then return bad end
local name = job_name
local job = redis.call('HMGET', k.job, 'rev', 'ended', 'kind', 'token', 'pending', 'paused_run', 'paused', 'applied', 'first_rev', 'same_since')
local stored = job[1] and read_definition(k.job)
local is_live = job[1] and not job[2]

local is_rezoned = change == 'zone'
local function list_in_source()
  if kind == 'file' and not is_rezoned then
    redis.call('HSET', k.source, name, hash)
    redis.call('HSET', k.job, 'src:' .. source_name, hash)
  end
end

-- Returns a reply if another job owns the unique key, or if the caller must read again; else nil.
-- Sets `is_burst` if this job owns the key, has not begun, and gets the new definition.
local key, is_burst = unique_key, false
local function judge_unique()
  local lock = redis.call('HMGET', k.unique, 'job', 'until', 'mode')
  if (lock[1] or '') ~= holder_name then return {'stale'} end
  if not lock[1] then return end
  local holder = redis.call('HMGET', k.holder, 'rev', 'ended', 'unique', 'pending', 'paused_run')
  local is_there = holder[1] and not holder[2] and holder[3] == key
  local is_own = is_there and lock[1] == name
  if unique_mode == 'debounce' and lock[3] == 'debounce' then
    local is_to_come = is_there and ((holder[4] or '') ~= '' or holder[5])
    -- The caller read another state of the owner: the owner must be changed instead, or has begun
    -- since then.
    if is_to_come and not is_own or is_own and not is_to_come and planned ~= '' then return {'stale'} end
    is_burst = is_to_come and planned ~= ''
    return
  end
  local is_held = is_there
  if lock[2] then is_held = now < whole(lock[2], FENCE) end
  if is_held and not (is_own and existing == 'edit') then return {'taken', lock[1]} end
end

if job[4] == token then return {job[8] or 'created'} end
local kind_now = job[3] or 'api'
if is_live and kind_now ~= kind then return {'other_kind', kind_now} end
local in_the_way = key ~= '' and judge_unique()
if in_the_way then return in_the_way end
if is_live then
  if existing == 'refuse' then return {'exists', kind_now} end
  if not is_rezoned and stored == definition then
    list_in_source()
    return {'unchanged'}
  end
  if is_burst then
    -- The caller must have read the lane of the planned run, which this call moves. Other changes
    -- of the job since the read are overwritten.
    if rev == '' or redis.call('HGET', k.job, 'queue') ~= old_queue then return {'stale'} end
  elseif job[1] ~= rev then
    return {'stale'}
  end
  if passed ~= '' and (job[7] and job[6] or job[5] or '') ~= planned then return {'stale'} end
elseif rev ~= '' then
  return {'stale'}
end

-- A job keeps the lane that it has, so no job stops because there are too many lanes.
if not (is_live and redis.call('HGET', k.job, 'queue') == lane) and is_lane_refused(k.lanes, lane) then return {'no_lane'} end

-- A run with a record is not planned again. The exception is a run of an ended job that was
-- cancelled before any attempt.
local planted_is_new = planted ~= '' and planted ~= job[5]
if planted_is_new and redis.call('EXISTS', k.run) == 1 then
  local run = redis.call('HMGET', k.run, 'state', 'attempt')
  if is_live or run[1] ~= 'cancelled' or run[2] then return {'occupied', planted} end
  redis.call('DEL', k.run)
  redis.call('ZREM', k.history, planted)
  redis.call('ZREM', k.job_history, planted)
end

-- While a run is open, its end will plan the next run.
if delay ~= '' and is_live and redis.call('ZCARD', k.open) > 0 then planted = '' end

note_lane(k.lanes, k.nudge, lane, now)
-- Makes the job the owner of the unique key in its definition, and of no other. The score in
-- `uniques` is the time of the next check of the key.
local function hold_unique()
  if key ~= '' then
    local lock = redis.call('HMGET', k.unique, 'job', 'since', 'until')
    local is_kept = is_live and lock[1] == name and (not lock[3] or now < whole(lock[3], FENCE))
    -- The first add of another burst starts the time of the key again.
    if unique_mode == 'debounce' and not is_burst then is_kept = false end
    local since = is_kept and tonumber(lock[2] or '') or now
    local look = math.max(tonumber(planted_due) or 0, now)
    redis.call('HSET', k.unique, 'job', name, 'mode', unique_mode, 'since', int(since))
    if unique_for == '' then
      redis.call('HDEL', k.unique, 'until')
    else
      look = since + tonumber(unique_for)
      redis.call('HSET', k.unique, 'until', int(look))
    end
    redis.call('ZADD', k.uniques, look, key)
    redis.call('HSET', k.job, 'unique', key)
  elseif job[1] then
    redis.call('HDEL', k.job, 'unique')
  end
  if old_key ~= '' and old_key ~= key and redis.call('HGET', k.old_unique, 'job') == name then
    redis.call('DEL', k.old_unique)
    redis.call('ZREM', k.uniques, old_key)
  end
end

local function set_notify()
  if notify ~= '' then redis.call('HSET', k.job, 'notify', notify) elseif job[1] then redis.call('HDEL', k.job, 'notify', 'failing', 'judged_at') end
end

-- Makes the runs that wait at the job's former gates ready, so that their claims use the new
-- definition.
local function judge_anew()
  for _, gate_name in ipairs(gate_names(gates)) do
    local gate = k.gates[gate_name]
    local entries = redis.call('ZRANGEBYLEX', gate.by_job, '[' .. name .. ' ', '(' .. name .. '!', 'LIMIT', 0, 1000)
    for _, entry in ipairs(entries) do
      local id = string.match(entry, '(%S+)$')
      if redis.call('ZSCORE', gate.waiters, id) then
        redis.call('ZADD', k.job_due, now, id)
        stop_waiting(gate, id)
        release_gate(k.gates, gate_names(gates), id, lane, now)
        add_to_counter(k.counters, 'waiting', -1)
      end
    end
    if entries[1] then
      set_gate_timer(k.gates.timers, gate, now)
      wake_nodes(k.nudge, 'due', k.job_due)
    end
  end
end

-- Moves the runs that have begun or were asked for to the job's new lane, with their ready times. The
-- former lane may have no node or worker.
local function move_to_lane()
  for _, runs in ipairs({k.open, k.manual, k.catch_up}) do
    for _, id in ipairs(redis.call('ZRANGE', runs, 0, 999)) do
      local ready = redis.call('ZSCORE', k.old_due, id)
      if ready then
        redis.call('ZADD', k.job_due, ready, id)
        redis.call('ZREM', k.old_due, id)
        nudge_if_head(k.nudge, k.job_due, id)
      end
    end
  end
end

-- The new schedule covers all occurrences after `since`, and also a planned run that was computed
-- from an earlier reading of the clock.
local since = planted ~= '' and once ~= '1' and math.min(now, tonumber(planted_due) - 1) or now
local rev = int(math.max(whole(job[1], FENCE - 1) + 1, micros))
-- A new job changes no due set but by its planned run.
if is_live then count_change(k.nudge, 'jobs') else count_change(k.nudge, 'jobs', false) end
set_not_while(k.not_while, k.not_while_recent, k.job, name, not_while)
set_gate_entry(k.job_gates, k.job, gate_entry)
set_parents(k, name, after, now)

-- Writes the definition, and what an edit can change, to the job's record.
local function set_job(fields)
  if job[1] then redis.call('HDEL', k.job, 'source', 'delay', 'max_runs', unpack(PIECES)) end
  add_filled(fields, {'source', source_name, 'delay', delay, 'max_runs', max_runs})
  add_definition(fields, definition)
  redis.call('HSET', k.job, 'rev', rev, 'token', token, 'queue', lane, 'once', once, unpack(fields))
end

if not is_live then
  if job[1] then
    -- All occurrences of a one-shot belong to its schedule, even if the job ended before them.
    local ended = redis.call('HMGET', k.job, 'once', 'ended_at')
    note_schedule_version(k.schedule_versions, k.job, ended[1] == '1' and PARKED - 1 or whole(ended[2], PARKED - 1), now)
  end
  -- A new job needs no field for what follows from its revision: the time of its adding, and the
  -- revisions since which it exists and has its definition.
  if job[1] then redis.call('HDEL', k.job, 'kind', 'anchor', 'created_by', 'first_rev', 'same_since') end
  set_job(add_filled({'tz', tz, 'since', int(since)}, {'kind', kind == 'file' and kind or '', 'anchor', once == '1' and '' or anchor,
    'created_at', job[1] and int(now) or '', 'same_since', job[1] and stored == definition and (job[10] or job[1]) or '', 'created_by', by}))
  set_notify()
  -- One-shots have no entry in the audit log for their adding, because there may be very many of
  -- them. The record says who added the job.
  if once ~= '1' then note_change(k.audit_log, now, 'added', by, {}) end
  list_in_source()
  hold_unique()
  plant_pending(k, name, planted, planted_due, planted_ready)
  if job[1] then
    -- Nothing of an earlier job of this name is kept, and the files that listed it do not list the
    -- new job.
    redis.call('HDEL', k.job, 'applied', 'ended', 'ended_at', 'paused', 'paused_run', 'started_count', 'failing', 'judged_at', 'window', 'watched',
      'next_at', 'next_by', 'next_set_at', 'next_run', 'next_own')
    redis.call('UNLINK', k.backfill)
    redis.call('ZREM', k.backfills, name)
    for _, notice in ipairs({'on_failure', 'on_recovered', 'on_success', 'on_late', 'ping'}) do redis.call('HDEL', k.job, 'suppressed:' .. notice) end
    redis.call('ZREM', k.finished, name)
    for _, field in ipairs(kind ~= 'file' and redis.call('HKEYS', k.job) or {}) do
      if string.sub(field, 1, 4) == 'src:' then redis.call('HDEL', k.job, field) end
    end
  end
  return {'created'}
end

-- The occurrences that passed after the planned run are recorded now, because the old schedule is
-- deleted afterwards.
if change ~= 'rest' and passed ~= '' and redis.call('EXISTS', k.passed_run) == 0 then
  local facts = add_range_fields(k.job, passed_last, passed_count,
    {'job', name, 'due', string.match(passed, '@(%d+)'), 'queue', lane, 'kind', 'regular', 'rev', rev})
  end_run({history = k.history, job_history = k.job_history, run = k.passed_run, counters = k.counters, job = k.job, notices = k.notices, nudge = k.nudge,
    deadlines = k.deadlines, chains = k.chains, chain_ends = k.chain_ends}, passed, 'skipped', job[7] and 'paused' or 'missed', now, facts)
  if tonumber(passed_count) > 1 then add_to_counter(k.counters, 'skipped', tonumber(passed_count) - 1) end
end
local old = job[5]
local old_ready = old and old ~= '' and redis.call('ZSCORE', k.old_due, old)
local is_owed = old_ready and tonumber(old_ready) <= now
if change ~= 'rest' and not is_burst then
  -- A run that was due but not ready is dropped, and its occurrence does not count.
  local due = tonumber(string.match(planned, '@(%d+)$') or '')
  local gives_way = due and due <= now and passed == '' and not is_owed
  note_schedule_version(k.schedule_versions, k.job, gives_way and due - 1 or now, now)
end
set_rev(k.job, job[1], rev)
set_job({'applied', 'updated'})
set_notify()
redis.call('HSETNX', k.job, 'tz', tz)
if once ~= '1' then redis.call('HSETNX', k.job, 'anchor', anchor) end
list_in_source()
if not is_rezoned then hold_unique() end
note_change(k.audit_log, now, 'edited', by, change == 'schedule' and {old = old_schedule, new = new_schedule} or {})
if change ~= 'rest' then
  redis.call('HSET', k.job, 'since', int(since))
  if job[7] then
    if job[6] and job[6] ~= planted then unwatch_planned(k, job[6]) end
    if planted == '' then redis.call('HDEL', k.job, 'paused_run') else redis.call('HSET', k.job, 'paused_run', planted) end
  elseif is_owed and not is_burst then
    -- The run is already due, so it is kept under any schedule. Its claim plans the first run of
    -- the new schedule.
    if k.job_due ~= k.old_due then
      redis.call('ZADD', k.job_due, old_ready, old)
      redis.call('ZREM', k.old_due, old)
    end
  else
    plant_pending(k, name, planted, planted_due, planted_ready)
    if old and old ~= '' and old ~= planted then unwatch_planned(k, old) end
    if old_ready and (old ~= planted or k.job_due ~= k.old_due) then redis.call('ZREM', k.old_due, old) end
  end
elseif old_ready and k.job_due ~= k.old_due then
  redis.call('ZADD', k.job_due, old_ready, old)
  redis.call('ZREM', k.old_due, old)
end
if k.job_due ~= k.old_due then move_to_lane() end
judge_anew()
wake_groups(k, gate_names(gates), now)
return {'updated'}
