#!lua flags=allow-oom
-- Ends an attempt: the run gets its final state and moves to history, or becomes due again for
-- another attempt.
-- Guard: the lease is in the set under this fence; the run has no later fence and has not ended. If
-- this call ends the run, the job is in the lane that the caller read.
-- A repeated call returns the same reply. A node without the lease gets the reply `lost` and
-- changes nothing.
-- KEYS 1 run
-- KEYS 2 job
-- KEYS 3 jobs
-- KEYS 4 due: of the run's lane
-- KEYS 5 job_due: of the job's lane as the caller read it
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
-- ARGV 5 verdict: a final state; retry (the attempt failed and is tried again); release (the run is
--   handed back, and this is not an attempt); ask_later (no attempt, the done_check runs again
--   later)
-- ARGV 6 reason
-- ARGV 7 ready: for retry and ask_later, in ms from now
-- ARGV 8 past: the attempt's record as JSON, kept with the run; '' if the attempt never began or
--   ends the run
-- ARGV 9 job_lane: as the caller read it
-- ARGV 10 gates: the gates at which the run has places
-- ARGV* field: a fact of the attempt
-- ARGV* value
-- Reply finished: the number of the job's runs in history
-- Reply retrying: ready
-- Reply released
-- Reply asking_later: ready
-- Reply moved: the present lane of the job
-- Reply lost: another node or no node has the lease, or the run has ended
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
local id, fence, verdict, reason = ARGV[2], ARGV[4], ARGV[5], ARGV[6]
local member = id .. '#' .. fence
local run = redis.call('HMGET', k.run, 'fence', 'verdict_fence', 'verdict', 'attempt', 'ready', 'failures', 'state', 'started_at', 'places',
  'kind')
if not redis.call('ZSCORE', k.leases, member) then
  if run[1] == fence and run[2] == fence and run[3] == verdict then
    if run[7] == 'scheduled' and verdict == 'retry' then return {'retrying', whole(run[5], PARKED)} end
    if run[7] == 'scheduled' and verdict == 'release' then return {'released'} end
    if run[7] == 'scheduled' and verdict == 'ask_later' then return {'asking_later', whole(run[5], PARKED)} end
    return {'finished', redis.call('ZCARD', k.job_history)}
  end
  return {'lost'}
end
if whole(run[1], FENCE) > tonumber(fence) then return {'lost'} end
if ENDS[run[7]] then return {'lost'} end
local gates_bad = missing_places(k.gates, run[9] or '')
if gates_bad then return gates_bad end
local places = gate_names(run[9])
local attempt = whole(run[4], COUNT)
local facts = {'fence', fence, 'verdict_fence', fence, 'verdict', verdict}
for at = 11, #ARGV do facts[#facts + 1] = ARGV[at] end

-- A request to stop the run also prevents its next attempt.
local stop = redis.call('HGET', k.stop_requests, id)
local goes_back = verdict == 'retry' or verdict == 'release' or verdict == 'ask_later'
if stop and goes_back then verdict, reason, goes_back = 'cancelled', parse_stop_request(stop), false end
if stop and verdict == 'cancelled' then
  local _, by = parse_stop_request(stop)
  facts[#facts + 1], facts[#facts + 2] = 'by', by
end

if goes_back then
  local ready = now
  if verdict ~= 'release' then ready = now + tonumber(ARGV[7]) end
  if verdict == 'retry' then
    redis.call('HSET', k.run, 'failures', whole(run[6], COUNT) + 1, 'recoveries', 0)
    if ARGV[8] ~= '' then keep_past(k.run, attempt, ARGV[8]) end
  else
    -- The next claim uses the number of this attempt again and overwrites its start. A run that was
    -- handed back unexecuted has not started.
    local has_started = verdict == 'ask_later' or ARGV[8] ~= '' or has_executed(k.run, attempt - 1)
    if run[8] and has_started then redis.call('HSETNX', k.run, 'first_start', run[8]) end
    redis.call('HSET', k.run, 'attempt', math.max(attempt - 1, 0))
    -- The run was claimed in time but never executed, so its start deadline applies again.
    -- A run that was claimed later has been reported already.
    if ARGV[8] == '' and run[10] == 'regular' and not has_executed(k.run, attempt - 1) then
      local start = string.match(redis.call('HGET', k.job, 'notify') or '', 'start=%d+')
      local due_ms = whole(string.match(id, '@(%d+)'), PARKED)
      local by = start and due_ms + tonumber(string.match(start, '%d+'))
      if by and whole(run[8], PARKED) <= by then watch(k.deadlines, k.nudge, id, due_ms, start, false) end
    end
    if ARGV[8] == '' then redis.call('HSET', k.run, 'handed_back', reason) else keep_cut(k.run, attempt, ARGV[8]) end
  end
  redis.call('ZADD', k.due, ready, id)
  redis.call('HSET', k.run, 'state', 'scheduled', 'ready', int(ready), 'waits_from', int(now), 'reason', reason, unpack(facts))
  if places[1] then redis.call('HDEL', k.run, 'places', 'waited_from') end
  leave_gates(k, id, places, verdict == 'retry' and 'ended' or 'left', now)
  redis.call('ZREM', k.leases, member)
  leave_queue(k, id)
  nudge_if_head(k.nudge, k.due, id)
  if verdict == 'retry' then return {'retrying', ready} end
  if verdict == 'ask_later' then return {'asking_later', ready} end
  return {'released'}
end

local lane = changed_lane(k, ARGV[9])
if lane then return {'moved', lane} end
end_run(k, id, verdict, reason, now, facts)
if places[1] then redis.call('HDEL', k.run, 'places') end
leave_gates(k, id, places, 'ended', now)
redis.call('ZREM', k.leases, member)
leave_queue(k, id)
redis.call('HDEL', k.stop_requests, id)
release_blocked(k, id, now)
end_or_plan_job(k, id, ARGV[3], now)
return {'finished', redis.call('ZCARD', k.job_history)}
