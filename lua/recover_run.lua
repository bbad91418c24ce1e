#!lua flags=allow-oom
-- Takes a run back from a node that stopped renewing its lease: the run becomes due again or ends.
-- Guard: the lease has the end that the caller saw during its whole watch. The run has no later
-- fence and has not ended, and the job is in the lane that the caller read.
-- KEYS 1 run
-- KEYS 2 job
-- KEYS 3 jobs
-- KEYS 4 due: of the run's lane
-- KEYS 5 job_due: of the job's lane
-- KEYS 6 leases
-- KEYS 7 open
-- KEYS 8 waiting
-- KEYS 9 stop_requests
-- KEYS 10 history
-- KEYS 11 job_history
-- KEYS 12 finished
-- KEYS 13 counters
-- KEYS 14 nudge
-- KEYS 15 dead
-- KEYS 16 job_dead
-- KEYS 17 running: in the run's queue
-- KEYS 18 queue: its settings
-- KEYS 19 notices
-- KEYS 20 deadlines
-- KEYS 21 manual
-- KEYS+ gate_timers, then holders, waiters, by_job, by_lane, lanes, state and rules: of each gate
-- ARGV 1 now
-- ARGV 2 id
-- ARGV 3 job_name
-- ARGV 4 fence
-- ARGV 5 seen: the end of the lease while the caller watched it
-- ARGV 6 verdict: retry, failed or lost
-- ARGV 7 reason
-- ARGV 8 past: the attempt's record as JSON
-- ARGV 9 job_lane: as the caller read it
-- ARGV 10 gates: the gates at which the run has places
-- Reply recovered
-- Reply ended: the final state
-- Reply alive: the node renewed the lease
-- Reply moved: the present lane of the job
-- Reply gone: the lease does not exist; or the run has ended, and its lease was removed
-- Reply places: the gates at which the run has places; the caller must repeat the call with them
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local k = {run = KEYS[1], job = KEYS[2], jobs = KEYS[3], due = KEYS[4], job_due = KEYS[5], leases = KEYS[6], open = KEYS[7],
  waiting = KEYS[8], stop_requests = KEYS[9], history = KEYS[10], job_history = KEYS[11], finished = KEYS[12], counters = KEYS[13],
  nudge = KEYS[14], dead = KEYS[15], job_dead = KEYS[16], running = KEYS[17], queue = KEYS[18], notices = KEYS[19],
  deadlines = KEYS[20], manual = KEYS[21], gates = gates_of(ARGV[10])}
local bad = wrong_type({k.run, 'hash', k.job, 'hash', k.jobs, 'zset', k.due, 'zset', k.job_due, 'zset', k.leases, 'zset',
  k.open, 'zset', k.waiting, 'zset', k.stop_requests, 'hash', k.history, 'zset', k.job_history, 'zset', k.finished, 'zset', k.counters, 'hash',
  k.dead, 'zset', k.job_dead, 'zset', k.running, 'zset', k.queue, 'hash', k.notices, 'zset', k.deadlines, 'zset', k.manual, 'zset'})
if bad then return bad end
local id, fence, verdict, reason = ARGV[2], ARGV[4], ARGV[6], ARGV[7]
local member = id .. '#' .. fence
local lease_end = redis.call('ZSCORE', k.leases, member)
if not lease_end then return {'gone'} end
if tonumber(lease_end) ~= tonumber(ARGV[5]) then return {'alive', lease_end} end
local run = redis.call('HMGET', k.run, 'fence', 'attempt', 'recoveries', 'places', 'state')
if whole(run[1], FENCE) > tonumber(fence) then
  -- The run continued under a later fence, and only this lease remained. This cannot be said of a
  -- run without a fence: without its lease, the run would be open for ever.
  redis.call('ZREM', k.leases, member)
  return {'gone'}
end
local gates_bad = missing_places(k.gates, run[4] or '')
if gates_bad then return gates_bad end
local lane = changed_lane(k, ARGV[9])
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
keep_past(k.run, whole(run[2], COUNT), ARGV[8])
local stop = redis.call('HGET', k.stop_requests, id)
local by = ''
if stop and verdict == 'retry' then
  verdict = 'cancelled'
  reason, by = parse_stop_request(stop)
end
if places[1] then redis.call('HDEL', k.run, 'places', 'waited_from') end
if verdict == 'retry' then
  redis.call('ZADD', k.due, now, id)
  redis.call('HSET', k.run, 'state', 'scheduled', 'ready', int(now), 'reason', reason)
  leave_gates(k, id, places, 'ended', now)
  redis.call('ZREM', k.leases, member)
  leave_queue(k, id)
  wake_nodes(k.nudge, 'due')
  return {'recovered'}
end
end_run(k, id, verdict, reason, now, {'by', by})
leave_gates(k, id, places, 'ended', now)
redis.call('ZREM', k.leases, member)
leave_queue(k, id)
redis.call('HDEL', k.stop_requests, id)
release_blocked(k, id, now)
end_or_plan_job(k, id, ARGV[3], now)
return {'ended', verdict}
