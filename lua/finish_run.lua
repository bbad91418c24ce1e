#!lua flags=allow-oom
-- Ends an attempt: the run gets its final state and moves to history, or becomes due again for
-- another attempt.
-- Guard: the lease is in the set under this fence; the run has no later fence and has not ended. The
-- job is in the lane that the caller read.
-- A repeated call returns the same reply. A node without the lease gets the reply `lost` and
-- changes nothing.
-- Keys: run, job, jobs, due (of the run's lane), job_due (of the job's lane as the caller read it),
--   leases, open, waiting, stop_requests, history, job_history, finished, counters, nudge, dead,
--   job_dead, running (in the run's queue), queue (its settings), notices, deadlines, manual, chains, chain_ends
-- Gates: the keys of the gates in the argument gates
-- Args: now, id, job_name, fence, verdict (a final state; retry (the attempt failed and is tried
--   again); release (the run is handed back, and this is not an attempt); ask_later (no attempt,
--   the done_check runs again later)), reason, ready (for retry and ask_later, in ms from now),
--   past (the attempt's record as JSON, kept with the run; '' if the attempt never began or ends
--   the run), job_lane (as the caller read it), gates (the gates at which the run has places)
-- Args of each item: field (a fact of the attempt), value
-- Reply finished: the number of the job's runs in history
-- Reply retrying: ready
-- Reply released
-- Reply asking_later: ready
-- Reply moved: the present lane of the job
-- Reply lost: another node or no node has the lease, or the run has ended
-- Reply places: the gates at which the run has places; the caller must repeat the call with them
-- Reply wrong_type: key, found, wanted

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
local facts = {'fence', fence, 'verdict_fence', fence, 'verdict', verdict, item_args()}

-- A request to stop the run also prevents its next attempt.
local stop = redis.call('HGET', k.stop_requests, id)
local goes_back = verdict == 'retry' or verdict == 'release' or verdict == 'ask_later'
if stop and goes_back then verdict, reason, goes_back = 'cancelled', parse_stop_request(stop), false end
if stop and verdict == 'cancelled' then
  local _, by = parse_stop_request(stop)
  facts[#facts + 1], facts[#facts + 2] = 'by', by
end

-- The run goes back to the present lane of its job, and so does the next run that this end plans. A run
-- of a host stays in the lane of the host.
local lane = changed_lane(k, job_lane)
if lane then return {'moved', lane} end
local home = string.find(k.due, '}:due:@', 1, true) and k.due or k.job_due

if goes_back then
  local ready_at = verdict == 'release' and now or now + tonumber(ready)
  if verdict == 'retry' then
    if run[8] then redis.call('HSETNX', k.run, 'first_start', run[8]) end
    redis.call('HSET', k.run, 'failures', whole(run[6], COUNT) + 1, 'recoveries', 0)
    if past ~= '' then keep_past(k.run, attempt, past) end
  else
    -- The next claim uses the number of this attempt again and overwrites its start. A run that was
    -- handed back unexecuted has not started.
    local has_started = verdict == 'ask_later' or past ~= '' or has_executed(k.run, attempt - 1)
    if run[8] and has_started then redis.call('HSETNX', k.run, 'first_start', run[8]) end
    redis.call('HSET', k.run, 'attempt', math.max(attempt - 1, 0))
    -- The run was claimed in time but never executed, so its start deadline applies again.
    -- A run that was claimed later has been reported already.
    if past == '' and run[10] == 'regular' and not has_executed(k.run, attempt - 1) then
      local start = string.match(redis.call('HGET', k.job, 'notify') or '', 'start=%d+')
      local due_ms = whole(string.match(id, '@(%d+)'), PARKED)
      local by = start and due_ms + tonumber(string.match(start, '%d+'))
      if by and whole(run[8], PARKED) <= by then watch(k.deadlines, k.nudge, id, due_ms, start, false) end
    end
    if past == '' then redis.call('HSET', k.run, 'handed_back', reason) else keep_cut(k.run, attempt, past) end
  end
  redis.call('ZADD', home, ready_at, id)
  redis.call('HSET', k.run, 'state', 'scheduled', 'ready', int(ready_at), 'waits_from', int(now), 'reason', reason, unpack(facts))
  if places[1] then redis.call('HDEL', k.run, 'places', 'waited_from') end
  leave_gates(k, id, places, verdict == 'retry' and 'ended' or 'left', now)
  redis.call('ZREM', k.leases, member)
  leave_queue(k, id)
  nudge_if_head(k.nudge, home, id)
  if verdict == 'retry' then return {'retrying', ready_at} end
  if verdict == 'ask_later' then return {'asking_later', ready_at} end
  return {'released'}
end

end_run(k, id, verdict, reason, now, facts)
if places[1] then redis.call('HDEL', k.run, 'places') end
leave_gates(k, id, places, 'ended', now)
redis.call('ZREM', k.leases, member)
leave_queue(k, id)
redis.call('HDEL', k.stop_requests, id)
release_blocked(k, id, now)
end_or_plan_job(k, id, job_name, now)
return {'finished', redis.call('ZCARD', k.job_history)}
