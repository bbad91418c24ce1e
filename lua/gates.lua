-- Gates: what a claim has to pass and may have to wait at. One is `group:X`, `job:B` (runs of B, and those that are not to run
-- while B does) or `key:K`. A run stands at the gates its record's `places` names: at each it holds a place, at the last it may
-- wait for one. Who gives a place up only marks the gate in `gate_wakes`; open_gate.lua gives it to whoever is first.
-- In `held` a run that has begun stands by a time, one that was let in and has not by that time below zero: its lane is then in
-- `state` as `lane:RUN`. One that does not begin in a moment while others wait gives its place up and stays due; `stuck:LANE` says so.
-- A run that waits stands in `queued` by its due and in `by_job` as `JOB LANE DUE RUN`. The first of each job of a lane stands in
-- `by_lane` as `LANE DUE RUN`. The first of each lane stands in `lanes` as `RUN LANE` by its due. The first of a stuck lane stands
-- there by the end of its mark below zero, so that one step passes a stuck lane, however many runs wait in it.

-- Gates one run may stand at, at most.
local GATES = 32
-- How long what a rate counts is kept past the time it matters, in ms: this clock may be a test's, that of Redis' keys is not.
local RATE_KEPT = 60000
-- How long a run that was let in may take to begin while others wait, in ms. A node with room for it takes a poll and a claim, some
-- tenths of a second; one whose queue is shut, or whose label nobody carries, may take for ever.
local MOMENT = 2000
-- How long no other run of a lane is let in after one that did not begin and still stands there: it would not begin either. Then one
-- is tried, in case it was that run alone which nobody could start. In ms.
local TRY = 60000

local function job_of(id) return string.match(id, '^[^@]*') end

-- The names of gates in a text.
local function gate_names(text)
  local names = {}
  for word in string.gmatch(text or '', '%S+') do
    local kind = string.match(word, '^(%l+):.')
    if #names < GATES and (kind == 'group' or kind == 'job' or kind == 'key') then names[#names + 1] = word end
  end
  return names
end

-- The gates of a call by name, with `wakes`: their keys stand behind all others. And the place of the last other key.
local function gates_of(text)
  local names = {}
  for word in string.gmatch(text, '%S+') do names[#names + 1] = word end
  if #names == 0 then return {}, #KEYS end
  local at = #KEYS - #names * 7
  local gates = {wakes = KEYS[at]}
  local last = at - 1
  for _, name in ipairs(names) do
    gates[name] = {name = name, kind = string.match(name, '^%l+'), of = string.match(name, ':(.*)$'), held = KEYS[at + 1],
      queued = KEYS[at + 2], by_job = KEYS[at + 3], by_lane = KEYS[at + 4], lanes = KEYS[at + 5], state = KEYS[at + 6],
      rules = KEYS[at + 7]}
    at = at + 7
  end
  return gates, last
end

-- A reply naming a key of these gates that holds something else; nil if all are well. Each gate is looked at once a call: what a
-- script writes there keeps its type.
local function spoilt_gate(gates, names)
  for _, name in ipairs(names) do
    local gate = gates[name]
    if not gate.is_sound then
      local bad = wrong_type({gates.wakes, 'zset', gate.held, 'zset', gate.queued, 'zset', gate.by_job, 'zset', gate.by_lane, 'zset',
        gate.lanes, 'zset', gate.state, 'hash'})
        or gate.kind ~= 'job' and wrong_type({gate.rules, gate.kind == 'key' and 'string' or 'hash'})
      if bad then return bad end
      gate.is_sound = true
    end
  end
end

-- What was found of the places at a gate in this call. Forgotten with each change of them.
local function found_at(gate)
  gate.found = gate.found or {}
  return gate.found
end

-- How many have a place.
local function places_held(gate)
  local found = found_at(gate)
  found.count = found.count or redis.call('ZCARD', gate.held)
  return found.count
end

-- Gives a run a place since `score`, or has the one it has since then.
local function hold_place(gate, id, score)
  gate.found = nil
  redis.call('ZADD', gate.held, score, id)
end

-- Takes the place of a run, if it has one. Whether it had.
local function drop_place(gate, id)
  gate.found = nil
  return redis.call('ZREM', gate.held, id) == 1
end

-- The reply that asks for the gates of `places` if the call does not have them all, or names one whose keys hold something else.
local function missing_places(gates, places)
  if places == '' then return nil end
  local names = gate_names(places)
  for _, name in ipairs(names) do
    if not gates[name] then return {'places', places} end
  end
  return spoilt_gate(gates, names)
end

-- Of a group how it is shared; `order` only if its members take turns. One whose settings are spoilt is exclusive.
local function group_rules(gate)
  local set = redis.call('HMGET', gate.rules, 'mode', 'order', 'gap_ms', 'patience_ms')
  local rules = {gap = whole(set[3], PARKED), patience = whole(set[4], PARKED)}
  if set[1] == 'alternate' then
    local order = {}
    for name in string.gmatch(set[2] or '', '%S+') do order[#order + 1] = name end
    if order[2] then rules.order, rules.text = order, set[2] end
  end
  return rules
end

-- The place of a job in the order; 0 for one that is none of it: those come last, by due.
local function turn_of(order, job)
  for at, name in ipairs(order) do
    if name == job then return at end
  end
  return 0
end

-- The due time of a run, as its id says it.
local function due_of(id) return whole(string.match(id, '@(%d+)'), PARKED) end

-- Returns the last two words of a run's entries in `by_job` and `by_lane`: its due and its id.
local function dated(id) return string.format('%015.0f ', due_of(id)) .. id end

-- The first two entries of an order that begin with these words.
local function first_entries(set, words) return redis.call('ZRANGEBYLEX', set, '[' .. words .. ' ', '(' .. words .. '!', 'LIMIT', 0, 2) end

-- Until when a stuck lane is passed over; nil for a lane that is not stuck.
local function stuck_until(gate, lane)
  local ends = whole(string.match(redis.call('HGET', gate.state, 'stuck:' .. lane) or '', ' (%d+)$'), PARKED)
  if ends > 0 then return ends end
end

-- Writes into `lanes` that the run of this entry of `by_lane` is the first of its lane.
local function stand_first(gate, lane, entry)
  local id = string.match(entry, '(%S+)$')
  local ends = stuck_until(gate, lane)
  redis.call('ZADD', gate.lanes, ends and -ends or due_of(id), id .. ' ' .. lane)
end

-- Adds a run to the orders by job and by lane; one that stands there stays.
local function add_to_orders(gate, id, lane)
  local of_job, own = job_of(id) .. ' ' .. lane, lane .. ' ' .. dated(id)
  redis.call('ZADD', gate.by_job, 0, job_of(id) .. ' ' .. own)
  local of_its_job = first_entries(gate.by_job, of_job)
  if of_its_job[1] ~= job_of(id) .. ' ' .. own then return end
  redis.call('ZADD', gate.by_lane, 0, own)
  local of_its_lane = first_entries(gate.by_lane, lane)
  if of_its_lane[1] == own then
    stand_first(gate, lane, own)
    if of_its_lane[2] then redis.call('ZREM', gate.lanes, string.match(of_its_lane[2], '(%S+)$') .. ' ' .. lane) end
  end
  if of_its_job[2] then redis.call('ZREM', gate.by_lane, string.match(of_its_job[2], '^%S+ (.*)$')) end
end

-- Takes a run out of the orders by job and by lane. Whether it stood there.
local function take_from_orders(gate, id, lane)
  local job, own = job_of(id), lane .. ' ' .. dated(id)
  local has_stood = redis.call('ZREM', gate.by_job, job .. ' ' .. own) == 1
  if redis.call('ZREM', gate.by_lane, own) == 1 then
    local of_its_job = first_entries(gate.by_job, job .. ' ' .. lane)[1]
    if of_its_job then redis.call('ZADD', gate.by_lane, 0, string.match(of_its_job, '^%S+ (.*)$')) end
  end
  if redis.call('ZREM', gate.lanes, id .. ' ' .. lane) == 1 then
    local of_its_lane = first_entries(gate.by_lane, lane)[1]
    if of_its_lane then stand_first(gate, lane, of_its_lane) end
  end
  return has_stood
end

-- Lanes in which runs of one job are looked for, at most: they stand in more than one only after an edit of the job.
local LANES_OF_JOB = 100

-- The lanes in which runs of one job wait, each with the first of them.
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

-- Returns the first run of one job that waits in a lane that is not stuck, or in `served`, with its due and its lane.
local function first_of_job(gate, job, served)
  local first
  for _, found in ipairs(lanes_of_job(gate, job)) do
    if (found.lane == served or not stuck_until(gate, found.lane)) and (not first or due_of(found.id) < due_of(first.id)) then first = found end
  end
  if first then return first.id, due_of(first.id), first.lane end
end

-- Returns the first run that waits in a lane that is not stuck, with its due and its lane.
local function first_of_all(gate)
  local first = redis.call('ZRANGEBYSCORE', gate.lanes, 0, '+inf', 'LIMIT', 0, 1)[1]
  local id, lane = string.match(first or '', '^(%S+) (.*)$')
  if id then return id, due_of(id), lane end
end

-- The first that waits in one lane, and its due.
local function first_in_lane(gate, lane)
  local id = string.match(first_entries(gate.by_lane, lane)[1] or '', '(%S+)$')
  if id then return id, due_of(id) end
end

-- Marks a lane as stuck: its runs are passed over until `ends`, or until `id`, which stands in it, leaves it.
local function mark_stuck(gate, lane, id, ends)
  redis.call('HSET', gate.state, 'stuck:' .. lane, id .. ' ' .. int(ends))
  local first = first_entries(gate.by_lane, lane)[1]
  if first then stand_first(gate, lane, first) end
end

-- Takes the mark off a lane.
local function unmark_stuck(gate, lane)
  redis.call('HDEL', gate.state, 'stuck:' .. lane)
  local first = first_entries(gate.by_lane, lane)[1]
  if first then stand_first(gate, lane, first) end
end

-- Whether one runs that was claimed before there was the rule this gate is for, so that it has no place here.
local function has_stranger(gate, k)
  if redis.call('EXISTS', k.shunned_lately) == 0 then return false end
  local rules = redis.call('ZRANGEBYLEX', k.shunned_lately, '[' .. gate.of .. ' ', '(' .. gate.of .. '!', 'LIMIT', 0, 100)
  if not rules[1] then return false end
  local jobs = {[gate.of] = true}
  for _, rule in ipairs(rules) do jobs[string.match(rule, ' (.*)$')] = true end
  for _, lease in ipairs(redis.call('ZRANGE', k.leases, 0, -1)) do
    local id = string.match(lease, '^[^#]*')
    if jobs[job_of(id)] and not redis.call('ZSCORE', gate.held, id) then return true end
  end
  redis.call('ZREM', k.shunned_lately, unpack(rules))
  return false
end

-- The limits of a key: how many at once (0: any number), microseconds between two and how many of those may be taken up beforehand.
local function limits_in(text)
  local limit, interval, burst = string.match(text or '', '^(%d+) (%d+) (%d+)$')
  return tonumber(limit or '1'), tonumber(interval or '0'), tonumber(burst or '1')
end

-- Rates of one key that are counted beside each other, at most: jobs that share it may name different ones.
local RATES = 16

-- What the rates of a key have taken up: for each `interval:burst` the microsecond up to which. A run that begins counts for those of
-- its own rate: counted for slower ones too, a busy job would keep the runs of another out for ever.
local function rates_of(gate)
  local found = {}
  for word in string.gmatch(redis.call('GET', gate.rules) or '', '%S+') do
    local to, rate = string.match(word, '^(%d+):(%d+:%d+)$')
    if to then found[rate] = whole(to, FENCE) end
  end
  return found
end

-- The name a rate has there.
local function rate_name(interval, burst) return int(interval) .. ':' .. int(burst) end

-- Keeps them, those that are over left out, and no more than may be.
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

-- The microsecond up to which time is taken up by a rate of a key; with it what all its rates have taken up, and the rate's name there.
-- Never further ahead than it may be: Redis' clock was set back then, and time begins anew.
local function taken_up(gate, interval, burst, micros)
  local found, rate = rates_of(gate), rate_name(interval, burst)
  local most = micros + interval * burst
  if (found[rate] or 0) > most then
    found[rate] = most
    keep_rates(gate, found, micros)
  end
  return math.max(micros, found[rate] or 0), found, rate
end

-- When the rate of a key lets one more begin, besides `promised` ones; nil if now.
local function rate_opens(gate, limits, promised, now, micros)
  local _, interval, burst = limits_in(limits)
  if interval == 0 then return nil end
  local to = taken_up(gate, interval, burst, micros)
  local over = to + interval * (promised + 1) - micros - interval * burst
  if over > 0 then return now + math.ceil(over / 1000) end
end

-- Notes that a run begins where its rate is counted.
local function take_rate(gate, limits, micros)
  local _, interval, burst = limits_in(limits)
  if interval == 0 then return end
  local to, found, rate = taken_up(gate, interval, burst, micros)
  found[rate] = to + interval
  keep_rates(gate, found, micros)
end

-- Whether a run of `job` may have a place now; if not, when time alone lets it, or nil. `limits` are those of a key. What was let in
-- and has not begun will be counted by the rate.
local function may_enter(k, gate, job, limits, now, micros)
  if gate.kind == 'key' then
    local limit = limits_in(limits)
    if limit > 0 and places_held(gate) >= limit then return false end
    local opens = rate_opens(gate, limits, redis.call('ZCOUNT', gate.held, '-inf', '(0'), now, micros)
    return not opens, opens
  end
  local found = found_at(gate)
  if found.first == nil then found.first = redis.call('ZRANGE', gate.held, 0, 0)[1] or false end
  local holder = found.first
  if gate.kind == 'job' then
    if holder and (job_of(holder) == gate.of) ~= (job == gate.of) then return false end
    if has_stranger(gate, k) then return false, now + 1000 end
    return true
  end
  if holder then return false end
  local rules = group_rules(gate)
  local state = redis.call('HMGET', gate.state, 'turn', 'last_ended', 'ended')
  if rules.order then
    local turn = state[1] or rules.order[1]
    if state[3] or turn_of(rules.order, job) == 0 or turn ~= job then return false, now end
  end
  local opens = whole(state[2], PARKED) + rules.gap
  -- One that would open later than its gap lasts was written before the clock was set back.
  if opens > now and opens <= now + rules.gap then return false, opens end
  return true
end

-- Gives a run its place. `lane` is where it goes to begin, nil if it does so now.
local function enter(gate, id, lane, now)
  hold_place(gate, id, lane and -now or now)
  if lane then redis.call('HSET', gate.state, 'lane:' .. id, lane) end
  if gate.kind == 'group' then
    local job = job_of(id)
    local is_its = redis.call('HGET', gate.state, 'turn') == job or redis.call('HGET', gate.rules, 'mode') ~= 'alternate'
    if not is_its then redis.call('HSET', gate.state, 'turn', job, 'since', int(now)) end
  end
end

-- Has the gate looked at by open_gate.lua at `at`, if nobody does earlier.
local function wake_gate(wakes, gate, at)
  if gate.looked_at and gate.looked_at <= at then return end
  gate.looked_at = at
  redis.call('ZADD', wakes, 'LT', at, gate.name)
end

-- Forgets the lane a run was to begin from; nil if none is known. If it kept out others of that lane, the gate is looked at again.
local function forget_known_lane(wakes, gate, id, lane, now)
  if not lane then return end
  redis.call('HDEL', gate.state, 'lane:' .. id)
  if string.match(redis.call('HGET', gate.state, 'stuck:' .. lane) or '', '^%S+') == id then
    unmark_stuck(gate, lane)
    wake_gate(wakes, gate, now)
  end
end

-- Forgets it, if there is one. Whether there was.
local function forget_lane(wakes, gate, id, now)
  local lane = redis.call('HGET', gate.state, 'lane:' .. id)
  forget_known_lane(wakes, gate, id, lane, now)
  return lane and true or false
end

-- A run that waited at one gate may begin from `lane` now: those where it has its place already are looked at if it does not.
local function come_loose(gates, names, id, lane, now)
  for _, name in ipairs(names) do
    local gate = gates[name]
    if redis.call('ZSCORE', gate.held, id) then
      redis.call('HSET', gate.state, 'lane:' .. id, lane)
      wake_gate(gates.wakes, gate, now + MOMENT)
    end
  end
end

-- Takes a run out of those that wait at a gate. Whether it did wait.
local function stop_waiting(gate, id)
  if redis.call('ZREM', gate.queued, id) == 0 then return false end
  local lane = redis.call('HGET', gate.state, 'lane:' .. id)
  if not lane or not take_from_orders(gate, id, lane) then
    for _, found in ipairs(lanes_of_job(gate, job_of(id))) do take_from_orders(gate, id, found.lane) end
  end
  redis.call('HDEL', gate.state, 'lane:' .. id, 'before:' .. id)
  return true
end

-- Takes a run away from the gates it stands at. `how` is `ended` if an attempt came to its end: the turn of its group passes then;
-- `left` if none was made.
local function leave_gates(k, id, names, how, now)
  local is_marked = false
  for _, name in ipairs(names) do
    local gate = k.gates[name]
    local has_waited = stop_waiting(gate, id)
    if has_waited then tally(k.totals, 'waiting', -1) end
    local has_left = drop_place(gate, id)
    local has_given_up = forget_lane(k.gates.wakes, gate, id, now) and not has_left
    local is_alternate = false
    if gate.kind == 'group' and has_left and how == 'ended' then
      is_alternate = redis.call('HGET', gate.rules, 'mode') == 'alternate'
      redis.call('HSET', gate.state, 'last_ended', int(now), 'ended', job_of(id))
    end
    if has_left or has_waited or has_given_up then
      if is_alternate or redis.call('ZCARD', gate.queued) > 0 then
        wake_gate(k.gates.wakes, gate, now)
        is_marked = true
      elseif gate.kind ~= 'group' and redis.call('ZCARD', gate.held) == 0 then
        redis.call('DEL', gate.state)
      end
    end
  end
  if is_marked then redis.call('PUBLISH', k.nudge, 'due') end
end

-- Has groups looked at where somebody waits: the turn may be that of a job whose runs are planned otherwise from now on.
local function wake_groups(k, names, now)
  for _, name in ipairs(names) do
    local gate = k.gates[name]
    if gate.kind == 'group' and redis.call('ZCARD', gate.queued) > 0 then
      redis.call('ZADD', k.gates.wakes, 'LT', now, name)
      redis.call('PUBLISH', k.nudge, 'due')
    end
  end
end

-- Puts a run among those that wait at a gate; it has its place at those `before`. `opens` is when time alone may open it, or nil;
-- `limits` are those of a key, or nil if they are known. Whether it did not wait there before.
local function wait_at(k, gate, id, due_ms, lane, before, opens, limits, now)
  local is_new = redis.call('ZADD', gate.queued, due_ms, id) == 1
  -- One that waited in another lane leaves that.
  for _, found in ipairs(is_new and {} or lanes_of_job(gate, job_of(id))) do take_from_orders(gate, id, found.lane) end
  add_to_orders(gate, id, lane)
  local facts = {'lane:' .. id, lane}
  if limits then facts[3], facts[4] = 'job:' .. job_of(id), limits end
  for _, name in ipairs(before) do
    hold_place(k.gates[name], id, -now)
    redis.call('HSET', k.gates[name].state, 'lane:' .. id, lane)
  end
  if before[1] then
    facts[#facts + 1], facts[#facts + 2] = 'before:' .. id, table.concat(before, ' ')
  elseif not is_new then
    redis.call('HDEL', gate.state, 'before:' .. id)
  end
  redis.call('HSET', gate.state, unpack(facts))
  if opens then wake_gate(k.gates.wakes, gate, opens) end
  -- Whoever has a place and does not begin gives it up to this one.
  local found = found_at(gate)
  if not found.is_woken then
    local idle = redis.call('ZREVRANGEBYSCORE', gate.held, '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if idle[2] then wake_gate(k.gates.wakes, gate, math.max(now, MOMENT - tonumber(idle[2]))) end
    found.is_woken = true
  end
  return is_new
end
