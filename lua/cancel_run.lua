#!lua flags=allow-oom
-- Cancels one run. A planned run ends `cancelled`, and its job's next run is planned. The node of a
-- running run stops that run.
-- Guard: the run has not ended. If the run is the job's pending run, the job is at the given
-- revision.
-- A repeated call replies `cancelled` again.
-- KEYS 1 run
-- KEYS 2 job
-- KEYS 3 jobs
-- KEYS 4 due: of the run's lane
-- KEYS 5 job_due: of the job's lane, which may contain a run that waited
-- KEYS 6 open
-- KEYS 7 waiting
-- KEYS 8 stop_requests
-- KEYS 9 history
-- KEYS 10 job_history
-- KEYS 11 finished
-- KEYS 12 counters
-- KEYS 13 nudge
-- KEYS 14 successor_run
-- KEYS 15 catch_up
-- KEYS 16 audit_log
-- KEYS 17 manual
-- KEYS 18 deadlines
-- KEYS+ gate_timers, then holders, waiters, by_job, by_lane, lanes, state and rules: of each gate
-- ARGV 1 now
-- ARGV 2 id
-- ARGV 3 job_name
-- ARGV 4 due_ms
-- ARGV 5 kind: regular or manual
-- ARGV 6 rev: of the job, or ''
-- ARGV 7 lane
-- ARGV 8 reason
-- ARGV 9 successor: the id of a run, or ''
-- ARGV 10 successor_due
-- ARGV 11 successor_ready
-- ARGV 12 by: the user who asks for the change, or ''
-- ARGV 13 job_lane: as the caller read it
-- ARGV 14 gates: the gates at which the run has places
-- Reply cancelled
-- Reply requested: the run is running; its node was asked to stop it
-- Reply over: state, finished_at
-- Reply unknown
-- Reply stale: the job changed; the caller must read the job again
-- Reply occupied: the successor already has a record
-- Reply places: the gates at which the run has places; the caller must repeat the call with them
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local k = {run = KEYS[1], job = KEYS[2], jobs = KEYS[3], due = KEYS[4], job_due = KEYS[5], open = KEYS[6], waiting = KEYS[7],
  stop_requests = KEYS[8], history = KEYS[9], job_history = KEYS[10], finished = KEYS[11], counters = KEYS[12], nudge = KEYS[13],
  deadlines = KEYS[18], manual = KEYS[17], gates = gates_of(ARGV[14])}
local bad = wrong_type({k.run, 'hash', k.job, 'hash', k.jobs, 'zset', k.due, 'zset', k.job_due, 'zset', k.open, 'zset',
  k.waiting, 'zset', k.stop_requests, 'hash', k.history, 'zset', k.job_history, 'zset', k.finished, 'zset', k.counters, 'hash', KEYS[15], 'zset',
  KEYS[16], 'zset', k.manual, 'zset', k.deadlines, 'zset'})
if bad then return bad end
local id = ARGV[2]
local run = redis.call('HMGET', k.run, 'state', 'finished_at', 'places')
if run[1] == 'running' then
  if redis.call('HSETNX', k.stop_requests, id, stop_request(ARGV[8], ARGV[12])) == 1 then
    note_change(KEYS[16], now, 'run cancelled', ARGV[12], {run = id})
  end
  wake_nodes(k.nudge, 'stop')
  return {'requested'}
end
if run[1] == 'cancelled' then return {'cancelled'} end
if run[1] and run[1] ~= 'scheduled' then return {'over', run[1], run[2] or ''} end
local gates_bad = missing_places(k.gates, run[3] or '')
if gates_bad then return gates_bad end
local places = gate_names(run[3])
local is_waiting, is_queued = redis.call('ZSCORE', k.waiting, id), false
for _, name in ipairs(places) do is_queued = is_queued or redis.call('ZSCORE', k.gates[name].waiters, id) end
if not is_waiting and not is_queued and not redis.call('ZSCORE', k.due, id) and not redis.call('ZSCORE', k.job_due, id) then return {'unknown'} end
local job = redis.call('HMGET', k.job, 'rev', 'pending', 'ended')
local is_pending = job[2] == id
if is_pending and job[1] ~= ARGV[6] then return {'stale'} end
if ARGV[6] ~= '' and changed_lane(k, ARGV[13]) then return {'stale'} end
if is_pending and is_planted_before(ARGV[9], KEYS[14]) then return {'occupied', ARGV[9]} end
end_run(k, id, 'cancelled', ARGV[8], now, {'job', ARGV[3], 'due', ARGV[4], 'queue', ARGV[7], 'kind', ARGV[5],
  'by', ARGV[12]})
-- If the job was removed, its audit log already has an entry for the removal.
if job[1] and not job[3] then note_change(KEYS[16], now, 'run cancelled', ARGV[12], {run = id}) end
if is_pending then plant_pending(k, ARGV[3], ARGV[9], ARGV[10], ARGV[11]) end
if places[1] then redis.call('HDEL', k.run, 'places') end
leave_gates(k, id, places, 'left', now)
redis.call('ZREM', k.due, id)
redis.call('ZREM', k.job_due, id)
redis.call('ZREM', KEYS[15], id)
redis.call('HDEL', k.stop_requests, id)
if is_waiting then
  redis.call('ZREM', k.waiting, id)
  add_to_counter(k.counters, 'waiting', -1)
end
release_blocked(k, id, now)
end_or_plan_job(k, id, ARGV[3], now)
return {'cancelled'}
