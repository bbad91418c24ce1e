#!lua flags=allow-oom
-- Removes a job, because an operator removed it or no file lists it any more. The definition is
-- kept for the job's open runs. Group members that wait for this job's turn wait no longer.
-- If other files still list the job and none of them has the definition in force, those files are
-- applied again.
-- Guard: the job is of the given kind and at the given revision. A repeated call replies `over`.
-- Keys: job, jobs, job_due, run (of the pending run), finished, history, job_history, counters,
--   open, stop_requests, source (the list of the job's source, for a file job), nudge, catch_up,
--   waiting, audit_log, unique (the unique key of the job, as the caller read it; the job if it
--   names none), uniques, job_gates, passed_run (the first run of the skipped range behind the
--   pending run, else the job), deadlines, chains, chain_ends, chain
-- Gates: the keys of the gates in the argument gates
-- Args: now, job_name, kind (file or api), rev, pending (as the caller read it), pending_due,
--   source_name, running (stop (ask running runs to stop), or leave), reason, by (the user who asks
--   for the change, or ''), gates (the gates that runs of the job have to pass), unique_key (as the
--   caller read it, or ''), passed (the first run of the skipped range behind the pending run, or
--   ''), passed_last, passed_count, passes_next (the time of the next occurrence, which would
--   extend that range, or '')
-- Reply removed: number of running runs that are asked to stop
-- Reply over: how the job ended
-- Reply listed: another file still lists the job
-- Reply other_kind: source kind of the job
-- Reply stale
-- Reply unknown
-- Reply wrong_type: key, found, wanted

local bad = gate_wrong_type(k.gates, gate_names(gates))
if bad then return bad end
local name = job_name
local job = redis.call('HMGET', k.job, 'rev', 'ended', 'kind', 'pending', 'paused_run', 'once', 'queue', 'paused')
if not job[1] then
  if kind == 'file' then redis.call('HDEL', k.source, name) end
  return {'unknown'}
end
local kind_now = job[3] or 'api'
if kind_now ~= kind then
  if kind == 'file' then redis.call('HDEL', k.source, name) end
  return {'other_kind', kind_now}
end
local own, is_listed, is_said, others = 'src:' .. source_name, false, false, {}
if kind == 'file' then
  local hash = redis.sha1hex(read_definition(k.job))
  for _, field in ipairs(redis.call('HKEYS', k.job)) do
    if string.sub(field, 1, 4) == 'src:' and field ~= own then
      is_listed = true
      others[#others + 1] = field
      is_said = is_said or redis.call('HGET', k.job, field) == hash
    end
  end
end
local planned = job[4] ~= '' and job[4] or job[5] or ''
local is_going = not is_listed and not job[2]
-- No file list is changed before this check. Otherwise a caller that dies after a stale reply would
-- leave a job that no file lists.
if is_going and (job[1] ~= rev or planned ~= pending) then return {'stale'} end
-- Another occurrence passed since the caller read the range, and no record would count that
-- occurrence.
if is_going and passes_next ~= '' and tonumber(passes_next) <= now then return {'stale'} end
if kind == 'file' then
  redis.call('HDEL', k.source, name)
  redis.call('HDEL', k.job, own)
end
if is_listed then
  if not is_said and not job[2] then
    -- The definition in force is withdrawn with its file. An empty hash makes the other files apply
    -- their definitions again.
    for _, field in ipairs(others) do redis.call('HSET', k.job, field, '') end
    wake_nodes(k.nudge, 'files')
  end
  return {'listed'}
end
if job[2] then return {'over', job[2]} end

count_change(k.nudge, 'jobs')
local stopped, request = 0, stop_request(reason, by)
if running == 'stop' then
  for _, id in ipairs(redis.call('ZRANGE', k.open, 0, 999)) do
    redis.call('HSET', k.stop_requests, id, request)
    stopped = stopped + 1
    -- A run that waits for its retry becomes due at once, and its claim ends it.
    if redis.call('ZSCORE', k.job_due, id) then redis.call('ZADD', k.job_due, now, id) end
  end
  if stopped > 0 then wake_nodes(k.nudge, 'stop') end
end
-- Waiting runs must not start either, not even a retried dead letter. Each of them ends when its
-- turn comes.
for _, id in ipairs(redis.call('ZRANGE', k.waiting, 0, 999)) do redis.call('HSET', k.stop_requests, id, request) end
-- Spread runs must not start either. They become due at once, and their claims end them.
for _, id in ipairs(redis.call('ZRANGE', k.catch_up, 0, 999)) do
  if redis.call('ZSCORE', k.job_due, id) then redis.call('ZADD', k.job_due, now, id) end
end
-- A run that waits at a gate and has not begun must not start either. A run that has begun returns
-- to its place at the gate.
for _, gate_name in ipairs(gate_names(gates)) do
  local gate = k.gates[gate_name]
  for _, id in ipairs(redis.call('ZRANGE', k.open, 0, 999)) do
    if redis.call('ZSCORE', gate.waiters, id) then
      redis.call('ZADD', k.job_due, now, id)
      stop_waiting(gate, id)
      release_gate(k.gates, gate_names(gates), id, job[7] or '', now)
      add_to_counter(k.counters, 'waiting', -1)
      set_gate_timer(k.gates.timers, gate, now)
    end
  end
end
redis.call('ZADD', k.finished, now, name)
redis.call('HSET', k.job, 'ended', reason, 'ended_at', int(now), 'pending', '')
redis.call('HDEL', k.job, 'paused_run')
-- A removed job frees its unique key, even before the key's time is over.
if unique_key ~= '' and redis.call('HGET', k.unique, 'job') == name then
  redis.call('DEL', k.unique)
  redis.call('ZREM', k.uniques, unique_key)
end
note_change(k.audit_log, now, 'removed', by, {})
-- A one-shot's run, or a run that was already due, gets a record. Later occurrences are dropped.
local is_owed = pending ~= '' and (job[6] == '1' or tonumber(pending_due) <= now)
-- A run whose record has a final state keeps it.
if is_owed and (redis.call('HGET', k.run, 'state') or 'scheduled') == 'scheduled' then
  end_run(k, pending, 'cancelled', reason, now, {'job', name, 'due', pending_due, 'queue', job[7] or '', 'kind', 'regular',
    'by', by})
end
-- The occurrences after that run did not start either, and no later step would record them.
if passed ~= '' and redis.call('EXISTS', k.passed_run) == 0 then
  local facts = add_range_fields(k.job, passed_last, passed_count,
    {'job', name, 'due', string.match(passed, '@(%d+)'), 'queue', job[7] or '', 'kind', 'regular', 'rev', job[1]})
  end_run({run = k.passed_run, job = k.job, history = k.history, job_history = k.job_history, counters = k.counters,
    deadlines = k.deadlines, chains = k.chains, chain_ends = k.chain_ends, nudge = k.nudge}, passed, 'skipped',
    job[8] and 'paused' or 'missed', now, facts)
  if tonumber(passed_count) > 1 then add_to_counter(k.counters, 'skipped', tonumber(passed_count) - 1) end
end
redis.call('ZREM', k.jobs, name)
set_gate_entry(k.job_gates, k.job, '')
set_parents(k, name, '', now)
if pending ~= '' then
  redis.call('ZREM', k.job_due, pending)
  unwatch_planned(k, pending)
end
wake_groups(k, gate_names(gates), now)
return {'removed', stopped}
