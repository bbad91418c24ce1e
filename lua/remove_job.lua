#!lua flags=allow-oom
-- Removes a job, because an operator removed it or no file lists it any more. The definition is
-- kept for the job's open runs. Group members that wait for this job's turn wait no longer.
-- If other files still list the job and none of them has the definition in force, those files are
-- applied again.
-- Guard: the job is of the given kind and at the given revision. A repeated call replies `over`.
-- KEYS 1 job
-- KEYS 2 jobs
-- KEYS 3 job_due
-- KEYS 4 run: of the pending run
-- KEYS 5 finished
-- KEYS 6 history
-- KEYS 7 job_history
-- KEYS 8 counters
-- KEYS 9 open
-- KEYS 10 stop_requests
-- KEYS 11 source: the list of the job's source, for a file job
-- KEYS 12 nudge
-- KEYS 13 catch_up
-- KEYS 14 waiting
-- KEYS 15 audit_log
-- KEYS 16 unique: the unique key of the job, as the caller read it; the job if it names none
-- KEYS 17 uniques
-- KEYS 18 job_gates
-- KEYS 19 passed_run: the first run of the skipped range behind the pending run, else the job
-- KEYS 20 deadlines
-- KEYS+ gate_timers, then holders, waiters, by_job, by_lane, lanes, state and rules: of each gate
-- ARGV 1 now
-- ARGV 2 job_name
-- ARGV 3 kind: file or api
-- ARGV 4 rev
-- ARGV 5 pending: as the caller read it
-- ARGV 6 pending_due
-- ARGV 7 source_name
-- ARGV 8 running: stop (ask running runs to stop), or leave
-- ARGV 9 reason
-- ARGV 10 by: the user who asks for the change, or ''
-- ARGV 11 gates: the gates that runs of the job have to pass
-- ARGV 12 unique_key: as the caller read it, or ''
-- ARGV 13 passed: the first run of the skipped range behind the pending run, or ''
-- ARGV 14 passed_last
-- ARGV 15 passed_count
-- ARGV 16 passes_next: the time of the next occurrence, which would extend that range, or ''
-- Reply removed: number of running runs that are asked to stop
-- Reply over: how the job ended
-- Reply listed: another file still lists the job
-- Reply other_kind: source kind of the job
-- Reply stale
-- Reply unknown
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local k = {job = KEYS[1], jobs = KEYS[2], job_due = KEYS[3], run = KEYS[4], history = KEYS[6], job_history = KEYS[7],
  counters = KEYS[8], open = KEYS[9], stop_requests = KEYS[10], nudge = KEYS[12], deadlines = KEYS[20],
  gates = gates_of(ARGV[11])}
local bad = wrong_type({k.job, 'hash', k.jobs, 'zset', k.job_due, 'zset', k.run, 'hash', KEYS[5], 'zset', k.history, 'zset',
  k.job_history, 'zset', k.counters, 'hash', k.open, 'zset', k.stop_requests, 'hash', KEYS[11], 'hash', KEYS[13], 'zset',
  KEYS[14], 'zset', KEYS[15], 'zset', KEYS[16], 'hash', KEYS[17], 'zset', KEYS[18], 'zset', KEYS[19], 'hash',
  k.deadlines, 'zset'}) or gate_wrong_type(k.gates, gate_names(ARGV[11]))
if bad then return bad end
local name, kind, pending = ARGV[2], ARGV[3], ARGV[5]
local job = redis.call('HMGET', k.job, 'rev', 'ended', 'kind', 'pending', 'paused_run', 'once', 'queue', 'paused')
if not job[1] then
  if kind == 'file' then redis.call('HDEL', KEYS[11], name) end
  return {'unknown'}
end
if job[3] ~= kind then
  if kind == 'file' then redis.call('HDEL', KEYS[11], name) end
  return {'other_kind', job[3]}
end
local own, is_listed, is_said, others = 'src:' .. ARGV[7], false, false, {}
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
if is_going and (job[1] ~= ARGV[4] or planned ~= pending) then return {'stale'} end
-- Another occurrence passed since the caller read the range, and no record would count that
-- occurrence.
if is_going and ARGV[16] ~= '' and tonumber(ARGV[16]) <= now then return {'stale'} end
if kind == 'file' then
  redis.call('HDEL', KEYS[11], name)
  redis.call('HDEL', k.job, own)
end
if is_listed then
  if not is_said and not job[2] then
    -- The definition in force is withdrawn with its file. An empty hash makes the other files apply
    -- their definitions again.
    for _, field in ipairs(others) do redis.call('HSET', k.job, field, '') end
    wake_nodes(KEYS[12], 'files')
  end
  return {'listed'}
end
if job[2] then return {'over', job[2]} end

count_change(KEYS[12], 'jobs')
local stopped, request = 0, stop_request(ARGV[9], ARGV[10])
if ARGV[8] == 'stop' then
  for _, id in ipairs(redis.call('ZRANGE', k.open, 0, 999)) do
    redis.call('HSET', k.stop_requests, id, request)
    stopped = stopped + 1
    -- A run that waits for its retry becomes due at once, and its claim ends it.
    if redis.call('ZSCORE', k.job_due, id) then redis.call('ZADD', k.job_due, now, id) end
  end
  if stopped > 0 then wake_nodes(KEYS[12], 'stop') end
end
-- Waiting runs must not start either, not even a retried dead letter. Each of them ends when its
-- turn comes.
for _, id in ipairs(redis.call('ZRANGE', KEYS[14], 0, 999)) do redis.call('HSET', k.stop_requests, id, request) end
-- Spread runs must not start either. They become due at once, and their claims end them.
for _, id in ipairs(redis.call('ZRANGE', KEYS[13], 0, 999)) do
  if redis.call('ZSCORE', k.job_due, id) then redis.call('ZADD', k.job_due, now, id) end
end
-- A run that waits at a gate and has not begun must not start either. A run that has begun returns
-- to its place at the gate.
for _, gate_name in ipairs(gate_names(ARGV[11])) do
  local gate = k.gates[gate_name]
  for _, id in ipairs(redis.call('ZRANGE', k.open, 0, 999)) do
    if redis.call('ZSCORE', gate.waiters, id) then
      redis.call('ZADD', k.job_due, now, id)
      stop_waiting(gate, id)
      release_gate(k.gates, gate_names(ARGV[11]), id, job[7] or '', now)
      add_to_counter(k.counters, 'waiting', -1)
      set_gate_timer(k.gates.timers, gate, now)
    end
  end
end
redis.call('ZADD', KEYS[5], now, name)
redis.call('HSET', k.job, 'ended', ARGV[9], 'ended_at', int(now), 'pending', '')
redis.call('HDEL', k.job, 'paused_run')
-- A removed job frees its unique key, even before the key's time is over.
if ARGV[12] ~= '' and redis.call('HGET', KEYS[16], 'job') == name then
  redis.call('DEL', KEYS[16])
  redis.call('ZREM', KEYS[17], ARGV[12])
end
note_change(KEYS[15], now, 'removed', ARGV[10], {})
-- A one-shot's run, or a run that was already due, gets a record. Later occurrences are dropped.
local is_owed = pending ~= '' and (job[6] == '1' or tonumber(ARGV[6]) <= now)
-- A run whose record has a final state keeps it.
if is_owed and (redis.call('HGET', k.run, 'state') or 'scheduled') == 'scheduled' then
  end_run(k, pending, 'cancelled', ARGV[9], now, {'job', name, 'due', ARGV[6], 'queue', job[7] or '', 'kind', 'regular',
    'by', ARGV[10]})
end
-- The occurrences after that run did not start either, and no later step would record them.
if ARGV[13] ~= '' and redis.call('EXISTS', KEYS[19]) == 0 then
  local facts = add_range_fields(k.job, ARGV[14], ARGV[15],
    {'job', name, 'due', string.match(ARGV[13], '@(%d+)'), 'queue', job[7] or '', 'kind', 'regular', 'rev', job[1]})
  end_run({run = KEYS[19], job = k.job, history = k.history, job_history = k.job_history, counters = k.counters,
    deadlines = k.deadlines}, ARGV[13], 'skipped',
    job[8] and 'paused' or 'missed', now, facts)
  if tonumber(ARGV[15]) > 1 then add_to_counter(k.counters, 'skipped', tonumber(ARGV[15]) - 1) end
end
redis.call('ZREM', k.jobs, name)
set_gate_entry(KEYS[18], k.job, '')
if pending ~= '' then
  redis.call('ZREM', k.job_due, pending)
  unwatch_planned(k, pending)
end
wake_groups(k, gate_names(ARGV[11]), now)
return {'removed', stopped}
