#!lua flags=allow-oom
-- Cancels one run. A planned run ends `cancelled`, and its job's next run is planned. The node of a
-- running run stops that run.
-- Guard: the run has not ended. If the run is the job's pending run, the job is at the given
-- revision.
-- A repeated call replies `cancelled` again.
-- Keys: run, job, jobs, due (of the run's lane), job_due (of the job's lane, which may contain a
--   run that waited), open, waiting, stop_requests, history, job_history, finished, counters,
--   nudge, successor_run:any, catch_up, audit_log, manual, deadlines,
--   chains, chain_ends
-- Gates: the keys of the gates in the argument gates
-- Args: now, id, job_name, due_ms, kind (regular or manual), rev (of the job, or ''), lane, reason,
--   successor (the id of a run, or ''), successor_due, successor_ready, by (the user who asks for
--   the change, or ''), job_lane (as the caller read it), gates (the gates at which the run has
--   places)
-- Reply cancelled
-- Reply requested: the run is running; its node was asked to stop it
-- Reply over: state, finished_at
-- Reply unknown
-- Reply stale: the job changed; the caller must read the job again
-- Reply occupied: the successor already has a record
-- Reply places: the gates at which the run has places; the caller must repeat the call with them
-- Reply wrong_type: key, found, wanted

local run = redis.call('HMGET', k.run, 'state', 'finished_at', 'places')
if run[1] == 'running' then
  if redis.call('HSETNX', k.stop_requests, id, stop_request(reason, by)) == 1 then
    note_change(k.audit_log, now, 'run cancelled', by, {run = id})
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
if is_pending and job[1] ~= rev then return {'stale'} end
if rev ~= '' and changed_lane(k, job_lane) then return {'stale'} end
if is_pending and is_planted_before(successor, k.successor_run) then return {'occupied', successor} end
end_run(k, id, 'cancelled', reason, now, {'job', job_name, 'due', due_ms, 'queue', lane, 'kind', kind,
  'by', by})
-- If the job was removed, its audit log already has an entry for the removal.
if job[1] and not job[3] then note_change(k.audit_log, now, 'run cancelled', by, {run = id}) end
if is_pending then plant_pending(k, job_name, successor, successor_due, successor_ready) end
if places[1] then redis.call('HDEL', k.run, 'places') end
leave_gates(k, id, places, 'left', now)
redis.call('ZREM', k.due, id)
redis.call('ZREM', k.job_due, id)
redis.call('ZREM', k.catch_up, id)
redis.call('HDEL', k.stop_requests, id)
if is_waiting then
  redis.call('ZREM', k.waiting, id)
  add_to_counter(k.counters, 'waiting', -1)
end
release_blocked(k, id, now)
end_or_plan_job(k, id, job_name, now)
return {'cancelled'}
