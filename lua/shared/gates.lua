-- The gates that a claim has to pass, and at which a run may have to wait.
-- A gate is `group:X`, `key:K`, or `job:B`. The gate `job:B` is for runs of B and for runs that
-- must not start while B runs.
-- A run's `places` names its gates. The run has a place at each of them, except that it may wait at
-- the last.
-- A run that gives up its place only marks the gate in `gate_timers`; open_gate.lua gives the place
-- to another run.
-- In `holders`, the score of a run that has begun is a time. The score of a run that was let in but
-- has not begun is a negative time, and `state` has its lane as `lane:RUN`.
-- A run that does not begin within MOMENT while other runs wait gives up its place and stays due.
-- `stuck:LANE` records this for its lane.
-- A waiting run is in `waiters` by its due time, and in `by_job` as `JOB LANE DUE RUN`.
-- The first run of each job in a lane is in `by_lane` as `LANE DUE RUN`.
-- The first run of each lane is in `lanes` as `RUN LANE`, by its due time. The entry of a stuck
-- lane has the negative end of the mark as score. So a search skips a stuck lane in one step,
-- however many runs wait in it.

-- The most gates at which one run may have a place.
local GATES = 32
-- The time for which an unused state of a rate limit is kept, in ms. The margin is needed because
-- Redis expires keys by its own clock, while the clock of a script may be set by a test.
local RATE_KEPT = 60000
-- The time in which a run that was let in must begin while other runs wait, in ms. A node with a
-- free slot needs some tenths of a second for a poll and a claim. A run of a paused queue, or with
-- a label that no node has, may never begin.
local MOMENT = 2000
-- The time for which a stuck lane is skipped, in ms. The run that did not begin is still due in the
-- lane, so other runs of the lane would not begin either. After this time another run is tried, in
-- case only the first run could not start.
local TRY = 60000

local function job_of(id) return string.match(id, '^[^@]*') end

-- Returns the job of a run or the job `name`; for an instance on a node, the job of the instance.
local function defined_job(id) return string.match(id, '^[^@/]*') end

-- Returns the names of gates in a text.
local function gate_names(text)
  local names = {}
  for word in string.gmatch(text or '', '%S+') do
    local kind = string.match(word, '^(%l+):.')
    if #names < GATES and (kind == 'group' or kind == 'job' or kind == 'key') then names[#names + 1] = word end
  end
  return names
end

-- Returns the gates of a call by name, with `timers`. The keys of the gates come after all other
-- keys. The second result is the index of the last other key.
local function gates_of(text)
  local names = {}
  for word in string.gmatch(text, '%S+') do names[#names + 1] = word end
  if #names == 0 then return {}, #KEYS end
  local at = #KEYS - #names * 7
  local gates = {timers = KEYS[at]}
  local last = at - 1
  for _, name in ipairs(names) do
    gates[name] = {name = name, kind = string.match(name, '^%l+'), of = string.match(name, ':(.*)$'), holders = KEYS[at + 1],
      waiters = KEYS[at + 2], by_job = KEYS[at + 3], by_lane = KEYS[at + 4], lanes = KEYS[at + 5], state = KEYS[at + 6],
      rules = KEYS[at + 7]}
    at = at + 7
  end
  return gates, last
end

-- Returns the reply for the first key of these gates with a wrong type, or nil. Each gate is
-- checked once a call, because the script itself writes no wrong type.
local function gate_wrong_type(gates, names)
  for _, name in ipairs(names) do
    local gate = gates[name]
    if not gate.is_sound then
      local bad = wrong_type({gates.timers, 'zset', gate.holders, 'zset', gate.waiters, 'zset', gate.by_job, 'zset', gate.by_lane, 'zset',
        gate.lanes, 'zset', gate.state, 'hash'})
        or gate.kind ~= 'job' and wrong_type({gate.rules, gate.kind == 'key' and 'string' or 'hash'})
      if bad then return bad end
      gate.is_sound = true
    end
  end
end

-- Returns the cache of the places at a gate that this call has read. Each change of the places
-- clears the cache.
local function found_at(gate)
  gate.found = gate.found or {}
  return gate.found
end

-- Returns the number of runs that have a place at a gate.
local function place_count(gate)
  local found = found_at(gate)
  found.count = found.count or redis.call('ZCARD', gate.holders)
  return found.count
end

-- Gives a run a place with this score, or changes the score of its place.
local function set_place(gate, id, score)
  gate.found = nil
  redis.call('ZADD', gate.holders, score, id)
end

-- Removes the place of a run. Returns true if the run had a place.
local function drop_place(gate, id)
  gate.found = nil
  return redis.call('ZREM', gate.holders, id) == 1
end

-- Returns the reply that asks for the gates in `places`, if the call lacks one of them, or the
-- reply for a gate key of a wrong type; else nil.
local function missing_places(gates, places)
  if places == '' then return nil end
  local names = gate_names(places)
  for _, name in ipairs(names) do
    if not gates[name] then return {'places', places} end
  end
  return gate_wrong_type(gates, names)
end

-- Returns the settings of a group. `order` is set only if its members take turns.
-- A group with unreadable settings is exclusive.
local function group_rules(gate)
  local set = redis.call('HMGET', gate.rules, 'mode', 'order', 'gap_ms', 'turn_timeout_ms')
  local rules = {gap = whole(set[3], PARKED), turn_timeout = whole(set[4], PARKED)}
  if set[1] == 'alternate' then
    local order = {}
    for name in string.gmatch(set[2] or '', '%S+') do order[#order + 1] = name end
    if order[2] then rules.order, rules.text = order, set[2] end
  end
  return rules
end

-- Returns the position of a job in the order of turns, or 0 for a job that is not in the order.
-- Such jobs come last, by due time.
local function turn_of(order, job)
  for at, name in ipairs(order) do
    if name == job then return at end
  end
  return 0
end

-- Returns the due time of a run, from its id.
local function due_of(id) return whole(string.match(id, '@(%d+)'), PARKED) end

-- Returns the last two words of a run's entries in `by_job` and `by_lane`: its due time and its id.
local function dated(id) return string.format('%015.0f ', due_of(id)) .. id end

-- Returns the first two entries of a sorted set that begin with these words.
local function first_entries(set, words) return redis.call('ZRANGEBYLEX', set, '[' .. words .. ' ', '(' .. words .. '!', 'LIMIT', 0, 2) end

-- Returns the time until which a stuck lane is skipped; nil for a lane that is not stuck.
local function stuck_until(gate, lane)
  local ends = whole(string.match(redis.call('HGET', gate.state, 'stuck:' .. lane) or '', ' (%d+)$'), PARKED)
  if ends > 0 then return ends end
end

-- Records in `lanes` that the run of this `by_lane` entry is the first of its lane.
local function set_first_of_lane(gate, lane, entry)
  local id = string.match(entry, '(%S+)$')
  local ends = stuck_until(gate, lane)
  redis.call('ZADD', gate.lanes, ends and -ends or due_of(id), id .. ' ' .. lane)
end

-- Adds a run to the orders by job and by lane, if the run is not there.
local function add_to_orders(gate, id, lane)
  local of_job, own = job_of(id) .. ' ' .. lane, lane .. ' ' .. dated(id)
  redis.call('ZADD', gate.by_job, 0, job_of(id) .. ' ' .. own)
  local of_its_job = first_entries(gate.by_job, of_job)
  if of_its_job[1] ~= job_of(id) .. ' ' .. own then return end
  redis.call('ZADD', gate.by_lane, 0, own)
  local of_its_lane = first_entries(gate.by_lane, lane)
  if of_its_lane[1] == own then
    set_first_of_lane(gate, lane, own)
    if of_its_lane[2] then redis.call('ZREM', gate.lanes, string.match(of_its_lane[2], '(%S+)$') .. ' ' .. lane) end
  end
  if of_its_job[2] then redis.call('ZREM', gate.by_lane, string.match(of_its_job[2], '^%S+ (.*)$')) end
end

-- Removes a run from the orders by job and by lane. Returns true if the run was there.
local function take_from_orders(gate, id, lane)
  local job, own = job_of(id), lane .. ' ' .. dated(id)
  local was_listed = redis.call('ZREM', gate.by_job, job .. ' ' .. own) == 1
  if redis.call('ZREM', gate.by_lane, own) == 1 then
    local of_its_job = first_entries(gate.by_job, job .. ' ' .. lane)[1]
    if of_its_job then redis.call('ZADD', gate.by_lane, 0, string.match(of_its_job, '^%S+ (.*)$')) end
  end
  if redis.call('ZREM', gate.lanes, id .. ' ' .. lane) == 1 then
    local of_its_lane = first_entries(gate.by_lane, lane)[1]
    if of_its_lane then set_first_of_lane(gate, lane, of_its_lane) end
  end
  return was_listed
end

-- The most lanes searched for the runs of one job. A job has runs in several lanes only after
-- edits.
local LANES_OF_JOB = 100

-- Returns the lanes in which runs of one job wait, each with its first run.
local function lanes_of_job(gate, job)
  local found, from = {}, '[' .. job .. ' '
  for _ = 1, LANES_OF_JOB do
    local entry = redis.call('ZRANGEBYLEX', gate.by_job, from, '(' .. job .. '!', 'LIMIT', 0, 1)[1]
    if not entry then break end
    local lane, id = string.match(entry, '^%S+ (%S+) %S+ (%S+)$')
    if lane then found[#found + 1] = {lane = lane, id = id} end
    from = lane and '[' .. job .. ' ' .. lane .. '!' or '(' .. entry
  end
  return found
end

-- Returns the first waiting run of one job, its due time and its lane. Skips stuck lanes, except
-- the lane `served`.
local function first_of_job(gate, job, served)
  local first
  for _, found in ipairs(lanes_of_job(gate, job)) do
    if (found.lane == served or not stuck_until(gate, found.lane)) and (not first or due_of(found.id) < due_of(first.id)) then first = found end
  end
  if first then return first.id, due_of(first.id), first.lane end
end

-- Returns the first run that waits in a lane that is not stuck, its due time and its lane.
local function first_of_all(gate)
  local first = redis.call('ZRANGEBYSCORE', gate.lanes, 0, '+inf', 'LIMIT', 0, 1)[1]
  local id, lane = string.match(first or '', '^(%S+) (.*)$')
  if id then return id, due_of(id), lane end
end

-- Returns the first run that waits in one lane, and its due time.
local function first_in_lane(gate, lane)
  local id = string.match(first_entries(gate.by_lane, lane)[1] or '', '(%S+)$')
  if id then return id, due_of(id) end
end

-- Marks a lane as stuck: its runs are skipped until `ends`, or until the run `id` leaves the lane.
local function mark_stuck(gate, lane, id, ends)
  redis.call('HSET', gate.state, 'stuck:' .. lane, id .. ' ' .. int(ends))
  local first = first_entries(gate.by_lane, lane)[1]
  if first then set_first_of_lane(gate, lane, first) end
end

-- Removes the mark of a stuck lane.
local function unmark_stuck(gate, lane)
  redis.call('HDEL', gate.state, 'stuck:' .. lane)
  local first = first_entries(gate.by_lane, lane)[1]
  if first then set_first_of_lane(gate, lane, first) end
end

-- Returns true if a run is running that was claimed before this gate's rule existed. Such a run has
-- no place at the gate. A rule without such runs is removed from `not_while_recent`.
local function has_uncounted_run(gate, k)
  if redis.call('EXISTS', k.not_while_recent) == 0 then return false end
  local rules = redis.call('ZRANGEBYLEX', k.not_while_recent, '[' .. gate.of .. ' ', '(' .. gate.of .. '!', 'LIMIT', 0, 100)
  if not rules[1] then return false end
  local jobs = {[gate.of] = true}
  for _, rule in ipairs(rules) do jobs[string.match(rule, ' (.*)$')] = true end
  for _, lease in ipairs(redis.call('ZRANGE', k.leases, 0, -1)) do
    local id = string.match(lease, '^[^#]*')
    if (jobs[job_of(id)] or jobs[defined_job(id)]) and not redis.call('ZSCORE', gate.holders, id) then return true end
  end
  redis.call('ZREM', k.not_while_recent, unpack(rules))
  return false
end

-- Returns the limits of a concurrency key: the runs at once (0: any number), the microseconds
-- between two starts, and the burst.
local function limits_in(text)
  local limit, interval, burst = string.match(text or '', '^(%d+) (%d+) (%d+)$')
  return tonumber(limit or '1'), tonumber(interval or '0'), tonumber(burst or '1')
end

-- The most rate limits of one key that are counted, because jobs that share a key may name
-- different rate limits.
local RATES = 16

-- Returns the rate limits of a key: for each `interval:burst` the time in microseconds up to which
-- begun runs have used the limit. A run counts only for the limit that it names. If runs also
-- counted for slower limits, a busy job could block the runs of another job for ever.
local function rates_of(gate)
  local found = {}
  for word in string.gmatch(redis.call('GET', gate.rules) or '', '%S+') do
    local to, rate = string.match(word, '^(%d+):(%d+:%d+)$')
    if to then found[rate] = whole(to, FENCE) end
  end
  return found
end

-- Returns the name of a rate limit in the table of `rates_of`.
local function rate_name(interval, burst) return int(interval) .. ':' .. int(burst) end

-- Stores the rate limits of a key whose times are in the future, at most RATES of them.
local function keep_rates(gate, found, micros)
  local names = {}
  for rate, to in pairs(found) do
    if to > micros then names[#names + 1] = rate end
  end
  table.sort(names, function(one, other) return found[one] > found[other] or found[one] == found[other] and one < other end)
  local words = {}
  for at = 1, math.min(#names, RATES) do words[at] = int(found[names[at]]) .. ':' .. names[at] end
  if not words[1] then return redis.call('DEL', gate.rules) end
  redis.call('SET', gate.rules, table.concat(words, ' '), 'PX', int(math.ceil((found[names[1]] - micros) / 1000) + RATE_KEPT))
end

-- Returns the time in microseconds up to which a rate limit of a key is used, then all limits of
-- the key, and the name of the limit. The time is at most one burst ahead. A later time means that
-- Redis' clock was set back, and the count starts again.
local function taken_up(gate, interval, burst, micros)
  local found, rate = rates_of(gate), rate_name(interval, burst)
  local most = micros + interval * burst
  if (found[rate] or 0) > most then
    found[rate] = most
    keep_rates(gate, found, micros)
  end
  return math.max(micros, found[rate] or 0), found, rate
end

-- Returns the time at which the rate limit of a key admits another run, or nil if it admits a run
-- now. `promised` is the number of runs that were let in and have not begun.
local function rate_opens(gate, limits, promised, now, micros)
  local _, interval, burst = limits_in(limits)
  if interval == 0 then return nil end
  local to = taken_up(gate, interval, burst, micros)
  local over = to + interval * (promised + 1) - micros - interval * burst
  if over > 0 then return now + math.ceil(over / 1000) end
end

-- Records the start of a run in the rate limit of a key.
local function take_rate(gate, limits, micros)
  local _, interval, burst = limits_in(limits)
  if interval == 0 then return end
  local to, found, rate = taken_up(gate, interval, burst, micros)
  found[rate] = to + interval
  keep_rates(gate, found, micros)
end

-- Returns the time from which a group without a running member admits a run, or nil if it admits a
-- run now. The group waits for its gap, and for the time that a run set for the next turn.
local function group_opens(gate, rules, now)
  local state = redis.call('HMGET', gate.state, 'last_ended', 'not_before', 'not_before_set')
  local opens = whole(state[1], PARKED) + rules.gap
  -- A gap that would end later than its own length from now was written before the clock was set
  -- back, and is ignored.
  if opens > now + rules.gap then opens = now end
  if rules.order and whole(state[3], PARKED) <= now then opens = math.max(opens, whole(state[2], PARKED)) end
  if opens > now then return opens end
end

-- Returns true if a run of `job` may have a place now. Otherwise returns false, and the time from
-- which the run may have a place even if no other run ends, or nil.
-- `limits` are the limits of a concurrency key. A run that was let in but has not begun counts for
-- the rate limit.
local function may_enter(k, gate, job, limits, now, micros)
  if gate.kind == 'key' then
    local limit = limits_in(limits)
    if limit > 0 and place_count(gate) >= limit then return false end
    local opens = rate_opens(gate, limits, redis.call('ZCOUNT', gate.holders, '-inf', '(0'), now, micros)
    return not opens, opens
  end
  local found = found_at(gate)
  if found.first == nil then found.first = redis.call('ZRANGE', gate.holders, 0, 0)[1] or false end
  local holder = found.first
  if gate.kind == 'job' then
    if holder and (defined_job(holder) == gate.of) ~= (defined_job(job) == gate.of) then return false end
    if has_uncounted_run(gate, k) then return false, now + 1000 end
    return true
  end
  if holder then return false end
  local rules = group_rules(gate)
  if rules.order then
    local state = redis.call('HMGET', gate.state, 'turn', 'ended')
    local turn = state[1] or rules.order[1]
    if state[2] or turn_of(rules.order, job) == 0 or turn ~= job then return false, now end
  end
  local opens = group_opens(gate, rules, now)
  return not opens, opens
end

-- Gives a run its place. `lane` is the lane from which the run will begin, or nil if the run begins
-- now.
local function enter(gate, id, lane, now)
  set_place(gate, id, lane and -now or now)
  if lane then redis.call('HSET', gate.state, 'lane:' .. id, lane) end
  if gate.kind == 'group' then
    local job = job_of(id)
    local is_its = redis.call('HGET', gate.state, 'turn') == job or redis.call('HGET', gate.rules, 'mode') ~= 'alternate'
    if not is_its then redis.call('HSET', gate.state, 'turn', job, 'since', int(now)) end
  end
end

-- Has open_gate.lua check the gate at `at` (ms), or earlier if an earlier check is planned.
local function set_gate_timer(timers, gate, at)
  if gate.looked_at and gate.looked_at <= at then return end
  gate.looked_at = at
  redis.call('ZADD', timers, 'LT', at, gate.name)
end

-- Deletes the lane from which a run was to begin. Returns nil if no lane is stored. If that run had
-- made the lane stuck, the mark is removed and the gate is checked again.
local function forget_known_lane(timers, gate, id, lane, now)
  if not lane then return end
  redis.call('HDEL', gate.state, 'lane:' .. id)
  if string.match(redis.call('HGET', gate.state, 'stuck:' .. lane) or '', '^%S+') == id then
    unmark_stuck(gate, lane)
    set_gate_timer(timers, gate, now)
  end
end

-- Deletes the stored lane of a run. Returns true if a lane was stored.
local function forget_lane(timers, gate, id, now)
  local lane = redis.call('HGET', gate.state, 'lane:' .. id)
  forget_known_lane(timers, gate, id, lane, now)
  return lane and true or false
end

-- Records the lane from which a run that waited at one gate may begin now. Each gate where the run
-- has its place already is checked if the run does not begin within MOMENT.
local function release_gate(gates, names, id, lane, now)
  for _, name in ipairs(names) do
    local gate = gates[name]
    if redis.call('ZSCORE', gate.holders, id) then
      redis.call('HSET', gate.state, 'lane:' .. id, lane)
      set_gate_timer(gates.timers, gate, now + MOMENT)
    end
  end
end

-- Removes a run from the waiting runs of a gate. Returns true if the run waited there.
local function stop_waiting(gate, id)
  if redis.call('ZREM', gate.waiters, id) == 0 then return false end
  local lane = redis.call('HGET', gate.state, 'lane:' .. id)
  if not lane or not take_from_orders(gate, id, lane) then
    for _, found in ipairs(lanes_of_job(gate, job_of(id))) do take_from_orders(gate, id, found.lane) end
  end
  redis.call('HDEL', gate.state, 'lane:' .. id, 'before:' .. id)
  return true
end

-- Removes a run from its gates. `how` is `ended` after an attempt, which passes the turn of a group
-- on, or `left` without an attempt.
local function leave_gates(k, id, names, how, now)
  local is_marked = false
  for _, name in ipairs(names) do
    local gate = k.gates[name]
    local has_waited = stop_waiting(gate, id)
    if has_waited then add_to_counter(k.counters, 'waiting', -1) end
    local has_left = drop_place(gate, id)
    local has_given_up = forget_lane(k.gates.timers, gate, id, now) and not has_left
    local is_alternate = false
    if gate.kind == 'group' and has_left and how == 'ended' then
      is_alternate = redis.call('HGET', gate.rules, 'mode') == 'alternate'
      redis.call('HSET', gate.state, 'last_ended', int(now), 'ended', job_of(id))
    end
    if has_left or has_waited or has_given_up then
      if is_alternate or redis.call('ZCARD', gate.waiters) > 0 then
        set_gate_timer(k.gates.timers, gate, now)
        is_marked = true
      elseif gate.kind ~= 'group' and redis.call('ZCARD', gate.holders) == 0 then
        redis.call('DEL', gate.state)
      end
    end
  end
  if is_marked then wake_nodes(k.nudge, 'due', false) end
end

-- Has the gates of groups with waiting runs checked, because the job whose turn it is may plan its
-- runs at other times now.
local function wake_groups(k, names, now)
  for _, name in ipairs(names) do
    local gate = k.gates[name]
    if gate.kind == 'group' and redis.call('ZCARD', gate.waiters) > 0 then
      redis.call('ZADD', k.gates.timers, 'LT', now, name)
      wake_nodes(k.nudge, 'due', false)
    end
  end
end

-- Makes a run wait at a gate, with places at the gates `before`. Returns true if the run did not
-- wait there before.
-- `opens` is the time at which a gap or a rate limit lets the run in, or nil. `limits` are the
-- limits of a concurrency key, or nil if they are recorded already.
local function wait_at(k, gate, id, due_ms, lane, before, opens, limits, now)
  local is_new = redis.call('ZADD', gate.waiters, due_ms, id) == 1
  -- The run may have an entry of another lane, which is removed.
  for _, found in ipairs(is_new and {} or lanes_of_job(gate, job_of(id))) do take_from_orders(gate, id, found.lane) end
  add_to_orders(gate, id, lane)
  local facts = {'lane:' .. id, lane}
  if limits then facts[3], facts[4] = 'job:' .. job_of(id), limits end
  for _, name in ipairs(before) do
    set_place(k.gates[name], id, -now)
    redis.call('HSET', k.gates[name].state, 'lane:' .. id, lane)
  end
  if before[1] then
    facts[#facts + 1], facts[#facts + 2] = 'before:' .. id, table.concat(before, ' ')
  elseif not is_new then
    redis.call('HDEL', gate.state, 'before:' .. id)
  end
  redis.call('HSET', gate.state, unpack(facts))
  if opens then set_gate_timer(k.gates.timers, gate, opens) end
  -- A run that has a place but does not begin gives up its place to this run after MOMENT.
  local found = found_at(gate)
  if not found.is_woken then
    local idle = redis.call('ZREVRANGEBYSCORE', gate.holders, '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if idle[2] then set_gate_timer(k.gates.timers, gate, math.max(now, MOMENT - tonumber(idle[2]))) end
    found.is_woken = true
  end
  return is_new
end
