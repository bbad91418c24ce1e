#!lua flags=allow-oom
-- Claims due runs of one lane: each claimed run leaves the due set and gets a lease, an owner and a
-- fence. The same step plans the next run of its job.
-- A run that meets an open run of its job waits or is skipped, as the job's overlap rule says.
-- A run stays due if its queue is paused, at its limit, or beyond its rate limit.
-- Guard: the run is in the due set and ready; its successor was computed from the job's present
-- revision.
-- A repeated call with the same token replies `claimed` with the same fence. It replies `gone` for
-- runs that ended or began to wait in the first call.
-- Keys: due, leases, fence, jobs, stop_requests, history, finished, counters, nudge, dead, running
--   (of this queue), queue (its settings), queue_state, not_while, not_while_recent, notices,
--   deadlines, job_gates
-- Keys of each item: run, job, open, waiting, job_history, job_due, successor_run, catch_up,
--   job_dead, manual
-- Gates: the keys of the gates in the argument gates
-- Args: now, node, incarnation, token (the name of this call, by which a repeated call is
--   recognised), lease_ms, lane, gates (the gates of all these runs, in the order of their keys),
--   slots (the most runs to claim)
-- Args of each item: id, job_name, due_ms, kind (regular or manual), delivery (at-most-once, or ''
--   for at-least-once), rev, overlap (skip, queue, replace or allow), max_waiting, max_age (in ms,
--   or ''), latest_start (the time after which a first attempt of a regular run is skipped, or ''),
--   max_runs (the most regular runs of the job that may begin, or ''), successor (the id of a run,
--   or ''), successor_due, successor_ready, run_gates (the gates that the run has to pass, in this
--   order), limits (of the run's concurrency key: runs at once (0: any number), microseconds
--   between two starts, burst; or '')
-- Reply items: now, 1 if the fence counter was corrupt and rebuilt, then one of these replies for
--   each run
-- Reply claimed: fence, attempt, lease end, recoveries in a row, failures, unclear answers in a
--   row, 1 if it was claimed before
-- Reply full: the call has claimed `slots` runs; this run was not checked
-- Reply gone: another node did this first
-- Reply early: ready
-- Reply stale: the job changed; the caller must read the job again
-- Reply job_missing: Redis has no job for the run
-- Reply bad_state: the run's record has an unknown state; the run stays due, so that the caller can
--   quarantine it
-- Reply unplanned: neither the job nor an operator planned this run
-- Reply occupied: the successor already has a record
-- Reply skipped: reason
-- Reply waiting: the run waits for an open run of its job
-- Reply withdrawn: the run came here before its due time, because the clock was ahead; the run is
--   planned again
-- Reply at_gate: the gate at which the run waits
-- Reply places: the gates at which the run has places; the caller must repeat the call with them
-- Reply needs_own_gate: another job names this job in `not_while`, so the run has to pass the gate
--   `job:` of its own job
-- Reply cancelled: reason
-- Reply failed: reason; another attempt would start later than max_age allows
-- Reply no_room: why the queue has no room (paused, full or rate)
-- Reply wrong_type: key, found, wanted

local has_not_while = redis.call('EXISTS', k.not_while) == 1
local has_stop_requests = redis.call('EXISTS', k.stop_requests) == 1

-- A lost or unreadable counter is rebuilt from the clock, which exceeds every fence issued from an
-- earlier clock. If the clock was set back, the run's own last fence is the lower bound.
local stored = redis.call('GET', k.fence)
local last = whole(stored, FENCE)
local is_fence_wrong = stored and last == 0
local function next_fence(own)
  if last >= FENCE then last = 0 end
  last = math.max(last + 1, own + 1, micros)
  redis.call('SET', k.fence, int(last))
  return last
end

-- The room of the queue is computed once, because all runs of a call are in one queue.
local queue, taken = queue_capacity(k, micros), 0

-- Returns nil if a first attempt may start; otherwise `waiting` or `skipped`.
local function blocked(k, id, has_waited)
  if k.overlap == 'allow' then return nil end
  if redis.call('ZCARD', k.open) == 0 or redis.call('ZSCORE', k.open, id) then return nil end
  -- A run that already waited for its turn is not skipped: another run only started first.
  if k.overlap == 'replace' or has_waited then return 'waiting' end
  if k.overlap == 'skip' then return 'skipped' end
  if redis.call('ZCARD', k.waiting) >= tonumber(k.max_waiting) then return 'skipped' end
  return 'waiting'
end

-- Asks all older runs of the job to stop, under the overlap rule `replace`. An older run that waits
-- for a retry, for its turn or at a gate becomes due at once, and its claim ends it.
local function replace(k, names)
  has_stop_requests = true
  for _, other in ipairs(redis.call('ZRANGE', k.open, 0, 999)) do
    redis.call('HSET', k.stop_requests, other, 'replaced')
    for _, name in ipairs(names) do
      if redis.call('ZSCORE', k.gates[name].waiters, other) then
        redis.call('ZADD', k.due, now, other)
        stop_waiting(k.gates[name], other)
        release_gate(k.gates, names, other, lane, now)
        add_to_counter(k.counters, 'waiting', -1)
      end
    end
    if redis.call('ZSCORE', k.due, other) then redis.call('ZADD', k.due, now, other) end
    if k.job_due ~= k.due and redis.call('ZSCORE', k.job_due, other) then redis.call('ZADD', k.job_due, now, other) end
  end
  for _, other in ipairs(redis.call('ZRANGE', k.waiting, 0, 999)) do
    redis.call('HSET', k.stop_requests, other, 'replaced')
    redis.call('ZADD', k.due, now, other)
    redis.call('ZREM', k.waiting, other)
    add_to_counter(k.counters, 'waiting', -1)
  end
  wake_nodes(k.nudge, 'stop')
end

-- Ends the schedule of a job that has begun `max_runs` runs: the planned run is dropped.
local function end_schedule(k, job_name, pending)
  redis.call('HDEL', k.job, 'paused_run')
  plant_pending(k, job_name, '')
  redis.call('ZREM', k.job_due, pending or '')
  unwatch_planned(k, pending or '')
end

-- Returns true if another job names `job` in `not_while`, and the run does not pass the gate of its
-- own job.
local function needs_own_gate(job, names)
  if not has_not_while or redis.call('ZRANGEBYLEX', k.not_while, '[' .. job .. ' ', '(' .. job .. '!', 'LIMIT', 0, 1)[1] == nil then
    return false
  end
  for _, name in ipairs(names) do
    if name == 'job:' .. job then return false end
  end
  return true
end

-- Returns true if an earlier run waits at a gate that this run could pass. Only runs in the lane of
-- this call or in a lane that is not stuck count. In an alternating group only runs of the same job
-- count.
local function would_overtake(gate, k)
  local own = tonumber(k.due_ms)
  local function is_before(id, due_ms) return id and (due_ms < own or due_ms == own and id < k.id) end
  if gate.kind == 'group' and group_rules(gate).order then return is_before(first_of_job(gate, k.job_name, lane)) end
  return is_before(first_of_all(gate)) or is_before(first_in_lane(gate, lane))
end

-- The change that this call makes to the number of waiting runs.
local waiting = 0

-- Passes the gates of a run in order. Returns the gate where the run has to wait, or nil, and all
-- gates where the run has places. While the run waits at a gate, it keeps its places at the gates
-- before. It gives up places that it no longer needs.
local function pass_gates(k, names, places)
  local needed, passed = {}, {}
  for _, name in ipairs(names) do needed[name] = true end
  local dropped = {}
  for _, name in ipairs(places) do
    if not needed[name] then dropped[#dropped + 1] = name end
  end
  leave_gates(k, k.id, dropped, 'left', now)
  for at, name in ipairs(names) do
    local gate = k.gates[name]
    local others, since = redis.call('ZCARD', gate.waiters), redis.call('ZSCORE', gate.holders, k.id)
    local known = redis.call('HMGET', gate.state, 'lane:' .. k.id, 'job:' .. k.job_name)
    local limits = gate.kind == 'key' and known[2] ~= k.limits and k.limits or nil
    local may, opens
    if since then
      -- The run was let in before. The rate limit counts a run when it begins, so the limit is
      -- checked again here.
      opens = gate.kind == 'key' and rate_opens(gate, k.limits, 0, now, micros)
      may = not opens
    else
      may, opens = may_enter(k, gate, k.job_name, k.limits, now, micros)
      if may and others > 0 and would_overtake(gate, k) then may, opens = false, now end
      if may and others > 0 and stop_waiting(gate, k.id) then waiting = waiting - 1 end
    end
    forget_known_lane(k.gates.timers, gate, k.id, known[1], now)
    if not may then
      if wait_at(k, gate, k.id, k.due_ms, lane, passed, opens, limits, now) then waiting = waiting + 1 end
      if since then drop_place(gate, k.id) end
      local beyond = {}
      for later = at + 1, #names do beyond[#beyond + 1] = names[later] end
      leave_gates(k, k.id, beyond, 'left', now)
      passed[#passed + 1] = name
      return name, passed
    end
    if limits and others > 0 then redis.call('HSET', gate.state, 'job:' .. k.job_name, limits) end
    if since then set_place(gate, k.id, now) else enter(gate, k.id, nil, now) end
    passed[#passed + 1] = name
  end
  return nil, passed
end

-- Counts the start of a run in the rate limit of its key. The gate of the key is checked again,
-- because the job's limits may have changed.
local function begin_at(names, limits)
  for _, name in ipairs(names) do
    local gate = k.gates[name]
    if gate.kind == 'key' then
      take_rate(gate, limits, micros)
      if redis.call('ZCARD', gate.waiters) > 0 then set_gate_timer(k.gates.timers, gate, now) end
    end
  end
end

-- Removes a due run that must not start: a run left in a former lane, or a planned run that is
-- running or has ended. The latter happens after a data loss; the job's next run is planned all the
-- same. A one-shot does not end if the state of its run is unreadable.
local function remove_from_due(k, state)
  local job = redis.call('HMGET', k.job, 'rev', 'pending', 'ended', 'started_count', 'once')
  local has_begun = state == 'running' or ENDS[state]
  if job[2] == k.id and not job[3] and (has_begun or job[5] ~= '1') then
    if job[1] ~= k.rev then return {'stale'} end
    if is_planted_before(k.successor, k.successor_run) then return {'occupied', k.successor} end
    local is_used_up = whole(job[4], COUNT) >= (tonumber(k.max_runs) or math.huge)
    plant_pending(k, k.job_name, is_used_up and '' or k.successor, k.successor_due, k.successor_ready)
    end_or_plan_job(k, k.id, k.job_name, now)
  end
  if not has_begun then return {'bad_state'} end
  redis.call('ZREM', k.due, k.id)
  return {'gone'}
end

-- Adds the start deadline of a skipped run, because the run that blocked it may still be running
-- then. Only the first run skipped behind the same run has a deadline, so that a run that hangs is
-- reported once.
local function watch_skipped(k, id, due_ms, notify, behind, last)
  local start = string.match(notify or '', 'start=%d+')
  if not start or behind == '' or string.match(last or '', '^%S+') == behind then return end
  watch(k.deadlines, k.nudge, id, due_ms, start, false)
  redis.call('HSET', k.job, 'skipped_behind', behind .. ' ' .. id)
  if last then unwatch(k.deadlines, string.match(last, '%S*$')) end
end

-- Adds the notice `on_late` for a run that starts later than its job allows. `before` is the time
-- of an earlier claim that was handed back unexecuted, or nil; a late run is reported once.
local function notify_late(k, id, notify, due_ms, before)
  local late = string.match(notify or '', 'late=(%d+)')
  local last = late and tonumber(due_ms) + tonumber(late)
  if late and now > last and not (before and tonumber(before) > last) then add_notice(k, 'on_late', id, 'start', now) end
end

-- Removes the record of a run that did not begin, and plans the run again for its due time. The run
-- becomes the planned run of its job unless the job has an earlier planned run, whose successors
-- reach this run.
local function withdraw(k, job)
  redis.call('DEL', k.run)
  unwatch_planned(k, k.id)
  if job[4] then
    if job[5] == '1' then redis.call('HSETNX', k.job, 'paused_run', k.id) end
    return
  end
  local planned = job[2] or ''
  if planned ~= '' and whole(string.match(planned, '@(%d+)'), PARKED) < tonumber(k.due_ms) then return end
  plant_pending(k, k.job_name, k.id, k.due_ms, k.due_ms)
  if planned ~= '' then redis.call('ZREM', k.job_due, planned) end
  local gate = gate_names(k.run_gates)[1]
  if gate then set_gate_entry(k.job_gates, k.job, job[13] .. ' ' .. gate .. ' ' .. k.job_name) end
end

local claimed, slots = 0, tonumber(slots)
-- The runs checked by this call. A run that is named twice gets the reply `gone`, unlike in a
-- repeated call.
local judged = {}

local function claim(k)
  local id = k.id
  local item_bad = wrong_type({k.run, 'hash', k.job, 'hash', k.open, 'zset', k.waiting, 'zset', k.job_history, 'zset', k.catch_up, 'zset',
    k.job_dead, 'zset', k.manual, 'zset'}) or k.job_due ~= k.due and wrong_type({k.job_due, 'zset'})
  if item_bad then return item_bad end
  local run = redis.call('HMGET', k.run, 'attempt', 'state', 'claim', 'fence', 'recoveries', 'failures', 'lease_end',
    'unclear', 'claimed_before', 'waiting_for', 'places', 'came_at', 'ready', 'waited_from', 'rev', 'handed_back', 'ready_at',
    'delivery', 'started_at', 'retried_at')
  local ready = redis.call('ZSCORE', k.due, id)
  local is_named_twice = judged[id]
  judged[id] = true
  if not ready then
    if run[2] == 'running' and run[3] == token and not is_named_twice then
      claimed = claimed + 1
      return {'claimed', run[4], whole(run[1], COUNT), whole(run[7], FENCE), whole(run[5], COUNT), whole(run[6], COUNT),
        whole(run[8], COUNT), run[9] == '0' and 0 or 1}
    end
    return {'gone'}
  end
  if tonumber(ready) > now then return {'early', ready} end
  if run[2] and run[2] ~= 'scheduled' then return remove_from_due(k, run[2]) end
  if claimed >= slots then return {'full'} end
  local job = redis.call('HMGET', k.job, 'rev', 'pending', 'ended', 'paused', 'once', 'started_count', 'notify', 'watched',
    'skipped_behind', 'first_rev', 'same_since', 'delay', 'queue')
  if not job[1] then return {'job_missing'} end
  if job[1] ~= k.rev then return {'stale'} end
  local is_pending = job[2] == id
  -- A run that its job planned has a record, or is open, waiting or spread. A run that an operator
  -- asked for has a record.
  if not is_pending and not run[2] and not run[4] and (k.kind == 'manual' or not job[3] and not redis.call('ZSCORE', k.open, id)
    and not redis.call('ZSCORE', k.waiting, id) and not redis.call('ZSCORE', k.catch_up, id)) then
    return {'unplanned'}
  end
  if is_pending and is_planted_before(k.successor, k.successor_run) then return {'occupied', k.successor} end
  local names = k.run_gates ~= '' and gate_names(k.run_gates) or {}
  local gates_bad = gate_wrong_type(k.gates, names) or missing_places(k.gates, run[11] or '')
  if gates_bad then return gates_bad end
  if needs_own_gate(k.job_name, names) then return {'needs_own_gate'} end
  local places = gate_names(run[11])
  -- The time from which the run could have started without its gates.
  local woken = ready
  if run[12] then ready = run[12] end

  -- The fence decides, not the attempt number. A run that was handed back at a shutdown may have
  -- started, so the run is neither skipped nor dropped.
  local first = not run[4]
  -- A run that was handed back unexecuted is as late as a run that was never claimed.
  local is_unexecuted = run[16] and whole(run[8], COUNT) == 0 and not has_executed(k.run, whole(run[1], COUNT))
  local is_unstarted = first or is_unexecuted
  if is_unexecuted then ready = run[17] or k.due_ms end
  -- A manual run is not in the list of open runs. Another run of its job may have begun since it
  -- was handed back.
  local is_back = not first and k.kind == 'manual' and whole(run[1], COUNT) == 0
  -- A finished one-shot keeps its definition for manual runs asked for earlier, and for runs of its
  -- former schedule. Those runs were spread, and may have waited for another run since then.
  local is_spread = redis.call('ZSCORE', k.catch_up, id)
  local is_owed = is_spread or run[10]
  local is_removed = job[3] and not (job[3] == 'finished' and (k.kind == 'manual' or is_owed))
  -- A run of an earlier job of this name never begins with the definition of this job.
  -- A run that has begun continues if the definition is unchanged.
  local is_of_former = is_former(run[15], first and (job[10] or job[1]) or job[11] or job[1])
  local begins = first and k.kind == 'regular'
  -- Only a clock that was ahead lets a run wait for its turn before its due time.
  local is_ahead = begins and not is_pending and not job[3] and not run[20] and (job[12] or '') == ''
    and tonumber(k.due_ms) > now
  local started, most = whole(job[6], COUNT), tonumber(k.max_runs) or math.huge
  local too_late = k.max_age ~= '' and now - tonumber(ready) > tonumber(k.max_age)
  local is_missed = k.kind == 'regular' and k.latest_start ~= '' and now > tonumber(k.latest_start)
  local base = {'job', k.job_name, 'due', k.due_ms, 'queue', lane, 'kind', k.kind, 'rev', k.rev}
  local stop = has_stop_requests and redis.call('HGET', k.stop_requests, id)
  local outcome, reason, by = nil, '', ''
  if stop then
    outcome = 'cancelled'
    reason, by = parse_stop_request(stop)
  elseif is_removed and first then
    outcome, reason = 'cancelled', 'job removed'
  elseif is_of_former then
    outcome, reason = 'cancelled', 'of an earlier job of this name'
  elseif is_ahead then
    outcome = 'withdrawn'
  elseif first and job[4] and k.kind == 'regular' and job[5] ~= '1' then
    -- The run was planned before its job was paused: the run waited for its turn or was spread.
    outcome, reason = 'skipped', 'paused'
  elseif begins and started >= most then
    outcome, reason = 'skipped', 'max_runs'
  elseif is_unstarted and (too_late or is_missed) then
    outcome, reason = 'skipped', 'missed'
  elseif too_late then
    outcome, reason = 'failed', 'the next attempt would start later than max_age allows'
  elseif first or is_back then
    outcome, reason = blocked(k, id, is_back or run[10]), 'overlap'
  end
  if not outcome and queue.capacity and taken >= queue.capacity then return {'no_room', queue.why or ''} end
  local gate, passed = nil, {}
  if outcome then
    leave_gates(k, id, places, 'left', now)
  elseif names[1] or places[1] then
    gate, passed = pass_gates(k, names, places)
    if gate then outcome, reason = 'at_gate', gate end
    if passed[1] then base[#base + 1], base[#base + 2] = 'places', table.concat(passed, ' ') end
  end
  -- A record stores only a difference from the plan: a run on time needs no `ready_at`.
  if first and ready ~= k.due_ms then base[#base + 1], base[#base + 2] = 'ready_at', int(tonumber(ready)) end
  local behind = (first or is_back) and outcome and reason == 'overlap' and (redis.call('ZRANGE', k.open, 0, 0)[1] or '')
  if behind then base[#base + 1], base[#base + 2] = 'behind', behind end

  if gate then
    -- The run that blocks this run: the last run that began, or else a run that was let in.
    local found = found_at(k.gates[gate])
    found.last = found.last or redis.call('ZREVRANGE', k.gates[gate].holders, 0, 0)[1]
    local before = found.last or redis.call('ZRANGE', k.gates[gate].waiters, 0, 0)[1]
    if not run[14] then base[#base + 1], base[#base + 2] = 'waited_from', int(now) end
    redis.call('HSET', k.run, 'state', 'scheduled', 'waiting_for', (string.gsub(gate, ':', ' ', 1)), 'reason', '', 'behind',
      before ~= id and before or '', 'came_at', int(tonumber(ready)), unpack(base))
    if run[13] then redis.call('HDEL', k.run, 'ready') end
    if k.kind == 'regular' then redis.call('ZADD', k.open, k.due_ms, id) end
  elseif outcome == 'waiting' then
    if k.overlap == 'replace' then replace(k, names) end
    redis.call('ZADD', k.waiting, k.due_ms, id)
    redis.call('HSET', k.run, 'state', 'scheduled', 'waiting_for', 'overlap', 'reason', '', unpack(base))
    redis.call('HDEL', k.run, 'ready')
    redis.call('HSETNX', k.run, 'waited_from', int(now))
    add_to_counter(k.counters, 'waiting', 1)
  elseif outcome and outcome ~= 'withdrawn' then
    redis.call('HSET', k.run, unpack(base))
    end_run(k, id, outcome, reason, now, {'by', by})
    if begins and behind then watch_skipped(k, id, k.due_ms, job[7], behind, job[9]) end
    redis.call('HDEL', k.stop_requests, id)
  elseif not outcome then
    local fence = next_fence(whole(run[4], FENCE - 1))
    local attempt = whole(run[1], COUNT) + 1
    local lease_end = now + tonumber(lease_ms)
    -- The mark is stored, so that a repeated claim gets the same reply: a run that may have started
    -- must not look new.
    local before = first and 0 or 1
    redis.call('HSET', k.run, 'state', 'running', 'attempt', attempt, 'fence', int(fence), 'claim', token, 'node', node,
      'incarnation', incarnation, 'lease_ms', lease_ms, 'lease_end', int(lease_end), 'started_at', int(now), 'reason', '',
      'claimed_before', before, unpack(base))
    redis.call('ZADD', k.leases, lease_end, id .. '#' .. int(fence))
    redis.call('ZADD', k.running, now, id)
    begin_at(passed, k.limits)
    taken = taken + 1
    if k.kind == 'regular' then redis.call('ZADD', k.open, k.due_ms, id) end
    -- The delivery rule of the attempt decides if the run is retried when its node is lost.
    if k.delivery ~= '' then
      redis.call('HSET', k.run, 'delivery', k.delivery)
    elseif run[18] then
      redis.call('HDEL', k.run, 'delivery')
    end
    if is_unstarted and k.kind == 'regular' then notify_late(k, id, job[7], k.due_ms, run[19]) end
    if begins then
      if job[8] ~= id then watch(k.deadlines, k.nudge, id, k.due_ms, job[7], true) end
      started = started + 1
      redis.call('HSET', k.job, 'started_count', started)
      if started >= most and not is_pending then end_schedule(k, k.job_name, job[2]) end
    end
    -- Runs that began to wait under another rule must not wait until no run is open. Under `allow`
    -- that moment may never come.
    if k.overlap == 'allow' and first then free_first_waiting(k, now) end
    claimed = claimed + 1
    run.reply = {'claimed', int(fence), attempt, lease_end, whole(run[5], COUNT), whole(run[6], COUNT),
      whole(run[8], COUNT), before}
  end

  if begins and (outcome == 'at_gate' or outcome == 'waiting') and not run[10] and job[8] ~= id then
    watch(k.deadlines, k.nudge, id, k.due_ms, job[7], false)
  end
  if run[11] and not gate then
    if not passed[1] then redis.call('HDEL', k.run, 'places') end
    if not outcome and run[12] then
      redis.call('HSET', k.run, 'waited_at', run[10] or '', 'waited_to', int(tonumber(woken)))
      redis.call('HDEL', k.run, 'waiting_for')
    end
    redis.call('HDEL', k.run, 'came_at')
  end
  if is_pending then
    plant_pending(k, k.job_name, started < most and k.successor or '', k.successor_due, k.successor_ready)
  end
  redis.call('ZREM', k.due, id)
  if is_spread then redis.call('ZREM', k.catch_up, id) end
  if outcome == 'withdrawn' then withdraw(k, job) end
  if outcome and outcome ~= 'waiting' and not gate then
    release_blocked(k, id, now)
    end_or_plan_job(k, id, k.job_name, now)
  end
  if run.reply then return run.reply end
  return {outcome, reason}
end

local reply = {'items', now, is_fence_wrong and 1 or 0}
for at = 1, item_count do reply[at + 3] = claim(item(at)) end
if queue.take and taken > 0 then queue.take(taken) end
if waiting ~= 0 then add_to_counter(k.counters, 'waiting', waiting) end
-- The call may have set the time of a gate check.
if gates ~= '' then count_change(k.nudge, 'due') end
return reply
