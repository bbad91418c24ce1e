#!lua flags=allow-oom
-- Takes a run back from a node that stopped renewing its lease: the run becomes due again or ends.
-- Guard: the lease has the end that the caller saw during its whole watch. The run has no later
-- fence and has not ended, and the job is in the lane that the caller read.
-- Keys: run, job, jobs, due (of the run's lane), job_due (of the job's lane), leases, open,
--   waiting, stop_requests, history, job_history, finished, counters, nudge, dead, job_dead,
--   running (in the run's queue), queue (its settings), notices, deadlines, manual, chains, chain_ends
-- Gates: the keys of the gates in the argument gates
-- Args: now, id, job_name, fence, seen (the end of the lease while the caller watched it), verdict
--   (retry, failed or lost), reason, past (the attempt's record as JSON), job_lane (as the caller
--   read it), gates (the gates at which the run has places)
-- Reply recovered
-- Reply ended: the final state
-- Reply alive: the node renewed the lease
-- Reply moved: the present lane of the job
-- Reply gone: the lease does not exist; or the run has ended, and its lease was removed
-- Reply places: the gates at which the run has places; the caller must repeat the call with them
-- Reply wrong_type: key, found, wanted

local member = id .. '#' .. fence
local lease_end = redis.call('ZSCORE', k.leases, member)
if not lease_end then return {'gone'} end
if tonumber(lease_end) ~= tonumber(seen) then return {'alive', lease_end} end
local run = redis.call('HMGET', k.run, 'fence', 'attempt', 'recoveries', 'places', 'state', 'started_at')
if whole(run[1], FENCE) > tonumber(fence) then
  -- The run continued under a later fence, and only this lease remained. This cannot be said of a
  -- run without a fence: without its lease, the run would be open for ever.
  redis.call('ZREM', k.leases, member)
  return {'gone'}
end
local gates_bad = missing_places(k.gates, run[4] or '')
if gates_bad then return gates_bad end
local lane = changed_lane(k, job_lane)
if lane then return {'moved', lane} end
local places = gate_names(run[4])
if ENDS[run[5]] then
  if places[1] then redis.call('HDEL', k.run, 'places', 'waited_from') end
  leave_gates(k, id, places, 'ended', now)
  redis.call('ZREM', k.leases, member)
  leave_queue(k, id)
  return {'gone'}
end
add_to_counter(k.counters, 'recovered', 1)
-- The done_check may have given a clear answer since then, so the count of unclear answers in a row
-- also restarts.
redis.call('HSET', k.run, 'recoveries', whole(run[3], COUNT) + 1, 'unclear', 0, 'fence', fence)
if run[6] then redis.call('HSETNX', k.run, 'first_start', run[6]) end
keep_past(k.run, whole(run[2], COUNT), past)
local stop = redis.call('HGET', k.stop_requests, id)
local by = ''
if stop and verdict == 'retry' then
  verdict = 'cancelled'
  reason, by = parse_stop_request(stop)
end
if places[1] then redis.call('HDEL', k.run, 'places', 'waited_from') end
if verdict == 'retry' then
  -- A run of a host stays in the lane of the host.
  local home = string.find(k.due, '}:due:@', 1, true) and k.due or k.job_due
  redis.call('ZADD', home, now, id)
  redis.call('HSET', k.run, 'state', 'scheduled', 'ready', int(now), 'reason', reason)
  leave_gates(k, id, places, 'ended', now)
  redis.call('ZREM', k.leases, member)
  leave_queue(k, id)
  wake_nodes(k.nudge, 'due', home)
  return {'recovered'}
end
end_run(k, id, verdict, reason, now, {'by', by})
leave_gates(k, id, places, 'ended', now)
redis.call('ZREM', k.leases, member)
leave_queue(k, id)
redis.call('HDEL', k.stop_requests, id)
release_blocked(k, id, now)
end_or_plan_job(k, id, job_name, now)
return {'ended', verdict}
