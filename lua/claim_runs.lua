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
--   deadlines, job_gates, chains, chain_ends
-- Keys of each item: run, job, open, waiting, job_history, job_due, successor_run, catch_up,
--   job_dead, manual
-- Gates: the keys of the gates in the argument gates
-- Args: now, node, incarnation, token (the name of this call, by which a repeated call is
--   recognised), lease_ms, lane, gates (the gates of all these runs, in the order of their keys),
--   slots (the most runs to claim)
-- Args of each item: id, job_name, due_ms, kind (regular or manual), delivery (at-most-once, or ''
--   for at-least-once), rev, overlap (skip, queue, replace or allow), max_waiting, max_caught_up
--   (max_waiting behind a run that began after this run was due, or ''), max_age (in ms, or ''),
--   latest_start (the time after which a first attempt of a regular run is skipped, or ''),
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
  local max_waiting = k.max_waiting
  if k.max_caught_up ~= '' then
    local since = redis.call('ZSCORE', k.running, redis.call('ZRANGE', k.open, 0, 0)[1])
    if since and tonumber(since) >= tonumber(k.due_ms) then max_waiting = k.max_caught_up end
  end
  return redis.call('ZCARD', k.waiting) >= tonumber(max_waiting) and 'skipped' or 'waiting'
end

-- The change that this call makes to the number of runs that wait at gates. It is counted at the end,
-- because a run may begin to wait and be replaced in one call, and the counter does not go below 0.
local waiting = 0

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
        waiting = waiting - 1
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

-- Returns true if another job names the job `of` in `not_while`, and the run does not pass the gate
-- of its own job.
local function needs_own_gate(of, names)
  local job = defined_job(of)
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
-- of an earlier claim that was handed back unexecuted, or nil; a late run is reported once. `from`
-- is the due time, or the later time that a run of the job set for it.
local function notify_late(k, id, notify, from, before)
  local late = string.match(notify or '', 'late=(%d+)')
  local last = late and from + tonumber(late)
  if late and now > last and not (before and tonumber(before) > last) then add_notice(k, 'on_late', id, 'start', now) end
end

-- Removes the record of a run that did not begin, and plans the run again for its due time. The run
-- becomes the planned run of its job unless the job has an earlier planned run, whose successors
-- reach this run.
local function withdraw(k, job)
  redis.call('DEL', k.run)
  unwatch_planned(k, k.id)
  if job.paused then
    if job.once == '1' then redis.call('HSETNX', k.job, 'paused_run', k.id) end
    return
  end
  local planned = job.pending or ''
  if planned ~= '' and whole(string.match(planned, '@(%d+)'), PARKED) < tonumber(k.due_ms) then return end
  plant_pending(k, k.job_name, k.id, k.due_ms, k.due_ms)
  if planned ~= '' then redis.call('ZREM', k.job_due, planned) end
  local gate = gate_names(k.run_gates)[1]
  if gate then set_gate_entry(k.job_gates, k.job, job.queue .. ' ' .. gate .. ' ' .. k.job_name) end
end

local claimed, slots = 0, tonumber(slots)
-- The runs checked by this call. A run that is named twice gets the reply `gone`, unlike in a
-- repeated call.
local judged = {}

local RUN_FIELDS = {'attempt', 'state', 'claim', 'incarnation', 'fence', 'recoveries', 'failures', 'lease_end', 'unclear', 'claimed_before', 'waiting_for',
  'places', 'came_at', 'ready', 'waited_from', 'waits', 'rev', 'handed_back', 'ready_at', 'delivery', 'started_at',
  'retried_at', 'parents'}
local JOB_FIELDS = {'rev', 'pending', 'ended', 'paused', 'once', 'started_count', 'notify', 'watched', 'skipped_behind', 'first_rev',
  'same_since', 'delay', 'queue', 'next_at', 'next_set_at'}

-- Returns the fields of a record by their names; an absent field is false.
local function read_fields(key, names)
  local found, fields = redis.call('HMGET', key, unpack(names)), {}
  for at, name in ipairs(names) do fields[name] = found[at] end
  return fields
end

-- Returns the reply for a run that is not in the due set. A repeated call of the node gets its claim
-- again.
local function absent(run, is_named_twice)
  local is_repeated = run.state == 'running' and run.claim == token and run.incarnation == incarnation
  if not is_repeated or is_named_twice then return {'gone'} end
  claimed = claimed + 1
  return {'claimed', run.fence, whole(run.attempt, COUNT), whole(run.lease_end, FENCE), whole(run.recoveries, COUNT),
    whole(run.failures, COUNT), whole(run.unclear, COUNT), run.claimed_before == '0' and 0 or 1}
end

-- Returns true if nobody planned or asked for the run. A run that its job planned has a record, or is
-- open, waiting or spread. A run that an operator asked for has a record.
local function is_unplanned(k, run, job)
  if run.is_pending or run.state or run.fence then return false end
  return k.kind == 'manual' or not job.ended and not redis.call('ZSCORE', k.open, k.id) and not redis.call('ZSCORE', k.waiting, k.id)
    and not redis.call('ZSCORE', k.catch_up, k.id)
end

-- Reads the records of a run and of its job. Returns both, or nil and the reply if no decision about
-- the run is needed.
local function read(k)
  local item_bad = wrong_type({k.run, 'hash', k.job, 'hash', k.open, 'zset', k.waiting, 'zset', k.job_history, 'zset', k.catch_up, 'zset',
    k.job_dead, 'zset', k.manual, 'zset'}) or k.job_due ~= k.due and wrong_type({k.job_due, 'zset'})
  if item_bad then return nil, item_bad end
  local run, ready = read_fields(k.run, RUN_FIELDS), redis.call('ZSCORE', k.due, k.id)
  local is_named_twice = judged[k.id]
  judged[k.id] = true
  if not ready then return nil, absent(run, is_named_twice) end
  if tonumber(ready) > now then return nil, {'early', ready} end
  if run.state and run.state ~= 'scheduled' then return nil, remove_from_due(k, run.state) end
  if claimed >= slots then return nil, {'full'} end
  local job = read_fields(k.job, JOB_FIELDS)
  if not job.rev then return nil, {'job_missing'} end
  if job.rev ~= k.rev then return nil, {'stale'} end
  job.held_until = held_until(job.next_at, job.next_set_at, now)
  if not run.fence and k.kind == 'regular' and job.held_until > now then
    redis.call('ZADD', k.due, job.held_until, k.id)
    return nil, {'early', int(job.held_until)}
  end
  run.is_pending = job.pending == k.id
  if is_unplanned(k, run, job) then return nil, {'unplanned'} end
  if run.is_pending and is_planted_before(k.successor, k.successor_run) then return nil, {'occupied', k.successor} end
  run.names = k.run_gates ~= '' and gate_names(k.run_gates) or {}
  local gates_bad = gate_wrong_type(k.gates, run.names) or missing_places(k.gates, run.places or '')
  if gates_bad then return nil, gates_bad end
  if needs_own_gate(k.job_name, run.names) then return nil, {'needs_own_gate'} end
  run.had_places = gate_names(run.places)
  -- The time in the due set, and the time from which the run could have started without its gates.
  run.woken, run.came = ready, run.came_at or ready
  -- The fence decides, not the attempt number. A run that was handed back at a shutdown may have
  -- started, so the run is neither skipped nor dropped.
  run.is_first = not run.fence
  run.begins = run.is_first and k.kind == 'regular'
  -- A run that was handed back unexecuted is as late as a run that was never claimed.
  local is_unexecuted = run.handed_back and whole(run.unclear, COUNT) == 0 and not has_executed(k.run, whole(run.attempt, COUNT))
  run.is_unstarted = run.is_first or is_unexecuted
  if is_unexecuted then run.came = run.ready_at or k.due_ms end
  -- A manual run is not in the list of open runs. Another run of its job may have begun since it
  -- was handed back.
  run.is_back = not run.is_first and k.kind == 'manual' and whole(run.attempt, COUNT) == 0
  run.is_spread = redis.call('ZSCORE', k.catch_up, k.id)
  job.started, job.most = whole(job.started_count, COUNT), tonumber(k.max_runs) or math.huge
  return run, job
end

-- Returns the outcome of a run that does not start: cancelled, withdrawn, skipped, failed or waiting;
-- nil if the run may start. Also returns the reason, and the user who asked for the stop or ''.
local function judge(k, run, job)
  local stop = has_stop_requests and redis.call('HGET', k.stop_requests, k.id)
  if stop then return 'cancelled', parse_stop_request(stop) end
  -- A finished one-shot keeps its definition for manual runs asked for earlier, and for runs of its
  -- former schedule. Those runs were spread, and may have waited for another run since then.
  local is_owed = run.is_spread or run.waiting_for
  local is_removed = job.ended and not (job.ended == 'finished' and (k.kind == 'manual' or is_owed))
  if is_removed and run.is_first then return 'cancelled', 'job removed', '' end
  -- A run of an earlier job of this name never begins with the definition of this job.
  -- A run that has begun continues if the definition is unchanged.
  local is_of_former = is_former(run.rev, run.is_first and (job.first_rev or job.rev) or job.same_since or job.rev)
  if is_of_former then return 'cancelled', 'of an earlier job of this name', '' end
  -- Only a clock that was ahead lets a run wait for its turn before its due time.
  local is_ahead = run.begins and not run.is_pending and not job.ended and not run.retried_at and (job.delay or '') == ''
    and tonumber(k.due_ms) > now
  if is_ahead then return 'withdrawn', '', '' end
  -- The run was planned before its job was paused: the run waited for its turn or was spread.
  if run.begins and job.paused and job.once ~= '1' then return 'skipped', 'paused', '' end
  if run.begins and job.started >= job.most then return 'skipped', 'max_runs', '' end
  local too_late = k.max_age ~= '' and now - tonumber(run.came) > tonumber(k.max_age)
  local is_missed = k.kind == 'regular' and k.latest_start ~= '' and now > tonumber(k.latest_start)
  if run.is_unstarted and (too_late or is_missed) then return 'skipped', 'missed', '' end
  if too_late then return 'failed', 'the next attempt would start later than max_age allows', '' end
  if run.is_first or run.is_back then return blocked(k, k.id, run.is_back or run.waiting_for), 'overlap', '' end
  return nil, '', ''
end

-- The most waits that the record of a run keeps.
local WAITS = 16

-- Returns the waits of a run for its record, the oldest first: `FROM-UNTIL=CAUSE` each, without UNTIL
-- while the wait goes on. `cause` is what the run waits for from now on, or nil.
local function waits_of(run, cause)
  if not run.waits and not cause then return nil end
  local before, last = string.match(run.waits or '', '^(.-)(%S*)$')
  local from, of = string.match(last, '^(%d+)%-=(.*)$')
  if from and of == cause then return run.waits end
  if from then last = from .. '-' .. int(tonumber(run.woken)) .. '=' .. of end
  local words = {}
  for word in string.gmatch(before .. last, '%S+') do words[#words + 1] = word end
  if cause then words[#words + 1] = int(now) .. '-=' .. cause end
  return table.concat(words, ' ', math.max(1, #words - WAITS + 1))
end

-- Records that a run waits at a gate. `base` are the fields of the run that each outcome writes.
local function wait_at_gate(k, run, gate, base)
  -- The run that blocks this run: the last run that began, or else a run that was let in.
  local found = found_at(k.gates[gate])
  found.last = found.last or redis.call('ZREVRANGE', k.gates[gate].holders, 0, 0)[1]
  local before = found.last or redis.call('ZRANGE', k.gates[gate].waiters, 0, 0)[1]
  if not run.waited_from then base[#base + 1], base[#base + 2] = 'waited_from', int(now) end
  redis.call('HSET', k.run, 'state', 'scheduled', 'waiting_for', (string.gsub(gate, ':', ' ', 1)), 'reason', '', 'behind',
    before ~= k.id and before or '', 'came_at', int(tonumber(run.came)), unpack(base))
  if run.ready then redis.call('HDEL', k.run, 'ready') end
  if k.kind == 'regular' then redis.call('ZADD', k.open, k.due_ms, k.id) end
end

-- Records that a run waits for an open run of its job.
local function wait_for_job(k, run, base)
  if k.overlap == 'replace' then replace(k, run.names) end
  redis.call('ZADD', k.waiting, k.due_ms, k.id)
  redis.call('HSET', k.run, 'state', 'scheduled', 'waiting_for', 'overlap', 'reason', '', unpack(base))
  redis.call('HDEL', k.run, 'ready')
  redis.call('HSETNX', k.run, 'waited_from', int(now))
  add_to_counter(k.counters, 'waiting', 1)
end

-- Starts an attempt of a run, and returns the reply. `passed` are the gates at which the run has
-- places.
local function start(k, run, job, base, passed)
  local fence = next_fence(whole(run.fence, FENCE - 1))
  local attempt = whole(run.attempt, COUNT) + 1
  local lease_end = now + tonumber(lease_ms)
  -- The mark is stored, so that a repeated claim gets the same reply: a run that may have started
  -- must not look new.
  local before = run.is_first and 0 or 1
  redis.call('HSET', k.run, 'state', 'running', 'attempt', attempt, 'fence', int(fence), 'claim', token, 'node', node,
    'incarnation', incarnation, 'lease_ms', lease_ms, 'lease_end', int(lease_end), 'started_at', int(now), 'reason', '',
    'claimed_before', before, unpack(base))
  redis.call('ZADD', k.leases, lease_end, k.id .. '#' .. int(fence))
  redis.call('ZADD', k.running, now, k.id)
  begin_at(passed, k.limits)
  taken = taken + 1
  if k.kind == 'regular' then redis.call('ZADD', k.open, k.due_ms, k.id) end
  -- The delivery rule of the attempt decides if the run is retried when its node is lost.
  if k.delivery ~= '' then
    redis.call('HSET', k.run, 'delivery', k.delivery)
  elseif run.delivery then
    redis.call('HDEL', k.run, 'delivery')
  end
  local from = math.max(tonumber(k.due_ms), job.held_until)
  -- A child may start only when its parents have ended, so it is late only after that time.
  local could_start = run.parents and math.max(tonumber(run.came), from) or from
  if run.is_unstarted and k.kind == 'regular' then notify_late(k, k.id, job.notify, could_start, run.started_at) end
  if run.begins then
    if job.watched ~= k.id then watch(k.deadlines, k.nudge, k.id, from, job.notify, true) end
    job.started = job.started + 1
    redis.call('HSET', k.job, 'started_count', job.started)
    if job.started >= job.most and not run.is_pending then end_schedule(k, k.job_name, job.pending) end
  end
  -- Runs that began to wait under another rule must not wait until no run is open. Under `allow`
  -- that moment may never come.
  if k.overlap == 'allow' and run.is_first then free_first_waiting(k, now) end
  claimed = claimed + 1
  return {'claimed', int(fence), attempt, lease_end, whole(run.recoveries, COUNT), whole(run.failures, COUNT),
    whole(run.unclear, COUNT), before}
end

-- Removes the fields of a run that no longer waits at a gate.
local function forget_gate(k, run, passed, is_started)
  if not passed[1] then redis.call('HDEL', k.run, 'places') end
  if is_started and run.came_at then
    redis.call('HDEL', k.run, 'waiting_for')
  end
  redis.call('HDEL', k.run, 'came_at')
end

-- Writes the outcome of a run, and returns the reply.
local function write(k, run, job, outcome, reason, by)
  local base = {'job', k.job_name, 'due', k.due_ms, 'queue', lane, 'kind', k.kind, 'rev', k.rev}
  local gate, passed, reply = nil, {}, nil
  if outcome then
    leave_gates(k, k.id, run.had_places, 'left', now)
  elseif run.names[1] or run.had_places[1] then
    gate, passed = pass_gates(k, run.names, run.had_places)
    if gate then outcome, reason = 'at_gate', gate end
    if passed[1] then base[#base + 1], base[#base + 2] = 'places', table.concat(passed, ' ') end
  end
  -- A record stores only a difference from the plan: a run on time needs no `ready_at`.
  if run.is_first and run.came ~= k.due_ms then base[#base + 1], base[#base + 2] = 'ready_at', int(tonumber(run.came)) end
  local waits = waits_of(run, gate or outcome == 'waiting' and 'overlap' or nil)
  if waits ~= (run.waits or nil) then base[#base + 1], base[#base + 2] = 'waits', waits end
  local behind = (run.is_first or run.is_back) and outcome and reason == 'overlap' and (redis.call('ZRANGE', k.open, 0, 0)[1] or '')
  if behind then base[#base + 1], base[#base + 2] = 'behind', behind end

  if gate then
    wait_at_gate(k, run, gate, base)
  elseif outcome == 'waiting' then
    wait_for_job(k, run, base)
  elseif outcome and outcome ~= 'withdrawn' then
    redis.call('HSET', k.run, unpack(base))
    end_run(k, k.id, outcome, reason, now, {'by', by})
    if run.begins and behind then watch_skipped(k, k.id, k.due_ms, job.notify, behind, job.skipped_behind) end
    redis.call('HDEL', k.stop_requests, k.id)
  elseif not outcome then
    reply = start(k, run, job, base, passed)
  end

  if run.begins and (gate or outcome == 'waiting') and not run.waiting_for and job.watched ~= k.id then
    watch(k.deadlines, k.nudge, k.id, k.due_ms, job.notify, false)
  end
  if run.places and not gate then forget_gate(k, run, passed, not outcome) end
  local is_pending = run.is_pending
  if is_pending then
    plant_pending(k, k.job_name, job.started < job.most and k.successor or '', k.successor_due, k.successor_ready)
  end
  redis.call('ZREM', k.due, k.id)
  if run.is_spread then redis.call('ZREM', k.catch_up, k.id) end
  if outcome == 'withdrawn' then withdraw(k, job) end
  if outcome and outcome ~= 'waiting' and not gate then
    release_blocked(k, k.id, now)
    end_or_plan_job(k, k.id, k.job_name, now)
  end
  return reply or {outcome, reason}
end

-- Claims a run in three phases: read, judge, write. Returns the reply.
local function claim(k)
  local run, job = read(k)
  if not run then return job end
  local outcome, reason, by = judge(k, run, job)
  if not outcome and queue.capacity and taken >= queue.capacity then return {'no_room', queue.why or ''} end
  return write(k, run, job, outcome, reason, by)
end

local reply = {'items', now, is_fence_wrong and 1 or 0}
for at = 1, item_count do reply[at + 3] = claim(item(at)) end
if queue.take and taken > 0 then queue.take(taken) end
if waiting ~= 0 then add_to_counter(k.counters, 'waiting', waiting) end
-- The call may have set the time of a gate check.
if gates ~= '' then count_change(k.nudge, 'due', false) end
return reply
