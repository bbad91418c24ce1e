#!lua flags=allow-oom
-- Gives the free places at a gate to runs that wait there, in due order or by turns. Replies with
-- the time of the next check.
-- A run that gets a place returns to its lane, ready now.
-- A run that was let in but does not begin within MOMENT while other runs wait loses its place
-- first, and stays due. As long as that run is due, its lane is stuck: no other run of the lane is
-- let in.
-- If no node serves a lane, its first run returns to the lane without a place, for a node that
-- serves the lane later. Until then the other runs of the lane are skipped.
-- Guard: the script checks everything again, so any node may call it at any time. At most 100
-- places a call; for the rest the gate is due for another check at once.
-- Keys: nudge, counters, jobs, leases, not_while_recent
-- Keys of each item: place:any (the due set of a lane, a member's job, or a member's open runs)
-- Gates: the keys of the gates in the argument gates
-- Args: now, gates (the gate)
-- Args of each item: kind (lane, unserved (a lane that no node serves), job or open), name
-- Reply opened: the number of runs that got a place, the time of the next check or ''
-- Reply lanes: {lane, ...} in which runs wait, were let in or are due; the caller must add them
-- Reply members: the members of the group, if the call lacks a job or an open run of a member
-- Reply wrong_type: key, found, wanted

local MOST = 100
-- The most lanes in one reply `lanes`.
local ASKED = 20
-- The shortest time between two trials of stuck lanes that nodes serve, in ms. So trials take at
-- most a tenth of the time, however many lanes are stuck.
local TRIALS = 10 * MOMENT
-- The most entries searched for a run of a job that is not a member.
local NON_MEMBERS = 1000
local gate = k.gates[gates]
local bad = gate_wrong_type(k.gates, {gates})
if bad then return bad end
local places, unserved = {lane = {}, job = {}, open = {}}, {}
for at = 1, item_count do
  local k = item(at)
  local kind, name = k.kind, k.name
  local place_bad = wrong_type({k.place, kind == 'job' and 'hash' or 'zset'})
  if place_bad then return place_bad end
  if kind == 'unserved' then kind, unserved[name] = 'lane', true end
  places[kind][name] = k.place
end
local rules = gate.kind == 'group' and group_rules(gate) or {}
for _, member in ipairs(rules.order or {}) do
  if not places.job[member] or not places.open[member] then return {'members', rules.text} end
end

local given, sent, next_look, wanted, filled = 0, 0, nil, {}, {}
-- True if the call must be repeated, because the first run is not known yet.
local is_cut = false
local function look_at(at) next_look = math.min(next_look or at, at) end

-- Returns true if the call has the due set of a lane; otherwise adds the lane to the reply.
local function has_lane(lane)
  if places.lane[lane] then return true end
  wanted[#wanted + 1] = lane
  is_cut = true
  return false
end

-- Takes the places of runs that were let in, are due, and have not begun within MOMENT, if other
-- runs wait.
local function take_back()
  if redis.call('ZCARD', gate.waiters) == 0 then return end
  local idle = redis.call('ZREVRANGEBYSCORE', gate.holders, '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, MOST)
  for at = 1, #idle, 2 do
    local id, since = idle[at], -tonumber(idle[at + 1])
    if since <= now and now - since < MOMENT then return look_at(since + MOMENT) end
    local lane = redis.call('HGET', gate.state, 'lane:' .. id)
    if lane and not has_lane(lane) then return end
    local ready = lane and redis.call('ZSCORE', places.lane[lane], id)
    ready = ready and tonumber(ready)
    if since > now then
      -- The score is from before the clock was set back.
      set_place(gate, id, -now)
      if ready then look_at(now + MOMENT) end
    elseif not ready and lane and unserved[lane] then
      -- The run waits at a later gate where no node would start it. Its claim passes this gate
      -- again.
      drop_place(gate, id)
    elseif not ready then
      -- The run waits at a later gate. When that gate lets the run in, this gate is checked again.
      set_place(gate, id, -now)
      look_at(now + TRIALS)
    elseif ready > now then
      -- The run was let in before the clock was set back, so it cannot begin. Its claim passes this
      -- gate again.
      drop_place(gate, id)
    elseif now - ready < MOMENT and not unserved[lane] then
      look_at(ready + MOMENT)
    else
      drop_place(gate, id)
      mark_stuck(gate, lane, id, now + TRY)
    end
  end
  if #idle == 2 * MOST then look_at(now) end
end

-- Tries stuck lanes again whose marks have ended, the oldest mark first. The mark of a lane that no
-- node serves lasts as long as the run it names is due in the lane.
local function try_again()
  for _ = 1, MOST do
    local found = redis.call('ZREVRANGEBYSCORE', gate.lanes, '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if not found[1] then return end
    local lane, ends = string.match(found[1], ' (.*)$'), -tonumber(found[2])
    -- A mark that ends later than any new mark was set before the clock was set back.
    if ends > now and ends <= now + TRY then return look_at(ends) end
    if not has_lane(lane) then return end
    local id = string.match(redis.call('HGET', gate.state, 'stuck:' .. lane) or '', '^%S+')
    if not id or not redis.call('ZSCORE', places.lane[lane], id) then
      unmark_stuck(gate, lane)
      -- The lane's entry in the order by lane is lost.
      if not first_entries(gate.by_lane, lane)[1] then redis.call('ZREM', gate.lanes, found[1]) end
    elseif unserved[lane] then
      mark_stuck(gate, lane, id, now + TRY)
    else
      local tried = whole(redis.call('HGET', gate.state, 'tried'), PARKED)
      if tried <= now and now < tried + TRIALS then return look_at(tried + TRIALS) end
      redis.call('HSET', gate.state, 'tried', int(now))
      unmark_stuck(gate, lane)
    end
  end
  look_at(now)
end

-- Sends the first run of a lane that no node serves back to that lane, without a place.
local function send_ahead(id, lane)
  redis.call('ZADD', places.lane[lane], now, id)
  filled[places.lane[lane]] = true
  local before = redis.call('HGET', gate.state, 'before:' .. id)
  stop_waiting(gate, id)
  redis.call('HSET', gate.state, 'lane:' .. id, lane)
  mark_stuck(gate, lane, id, now + TRY)
  look_at(now + TRY)
  -- The run also gives up its places at earlier gates.
  for _, name in ipairs(gate_names(before)) do set_gate_timer(k.gates.timers, {name = name}, now) end
  add_to_counter(k.counters, 'waiting', -1)
  sent = sent + 1
end

-- Returns the first run that `find` finds in a lane that a node serves, and its lane.
local function first_served(find)
  for _ = 1, MOST do
    local id, _, lane = find()
    if not id then return end
    if not redis.call('ZSCORE', gate.waiters, id) then
      take_from_orders(gate, id, lane)
    elseif not has_lane(lane) then
      return
    elseif unserved[lane] then
      send_ahead(id, lane)
    else
      return id, lane
    end
  end
  is_cut = true
  look_at(now)
end

-- Returns the first waiting run of a job that is not a member, in a lane that is not stuck.
local function first_non_member()
  local id, due, lane
  local lanes = redis.call('ZRANGEBYSCORE', gate.lanes, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, NON_MEMBERS)
  local looked_at = 0
  for at = 1, #lanes, 2 do
    if due and tonumber(lanes[at + 1]) > due then break end
    local other = string.match(lanes[at], ' (.*)$')
    local from = '[' .. other .. ' '
    while looked_at < NON_MEMBERS do
      local entry = redis.call('ZRANGEBYLEX', gate.by_lane, from, '(' .. other .. '!', 'LIMIT', 0, 1)[1]
      if not entry then break end
      looked_at = looked_at + 1
      local found = string.match(entry, '(%S+)$')
      if turn_of(rules.order, job_of(found)) == 0 then
        if not due or due_of(found) < due then id, due, lane = found, due_of(found), other end
        break
      end
      from = '(' .. entry
    end
  end
  return id, due, lane
end

-- Returns the first waiting run of the member whose turn it is. The turn '' belongs to all jobs
-- that are not members.
local function first_of(turn)
  if turn == '' then return first_served(first_non_member) end
  return first_served(function() return first_of_job(gate, turn) end)
end

-- Rebuilds the orders by job and by lane from the waiting runs, if both orders are lost.
local function sort_anew()
  if redis.call('ZCARD', gate.waiters) == 0 or redis.call('ZCARD', gate.lanes) > 0 then return end
  for _, id in ipairs(redis.call('ZRANGE', gate.waiters, 0, MOST - 1)) do
    add_to_orders(gate, id, redis.call('HGET', gate.state, 'lane:' .. id) or 'default')
  end
  look_at(now + 1000)
end

-- Returns true if the group waits for a member without a waiting run. The member's planned run is
-- due within the group's turn timeout, or a begun run of the member becomes ready in that time.
local function is_awaited(member)
  if member == '' then return false end
  local job = redis.call('HMGET', places.job[member], 'rev', 'ended', 'paused', 'queue')
  local due = redis.call('ZSCORE', k.jobs, member)
  if job[1] and not job[2] and not job[3] and due and tonumber(due) <= now + rules.turn_timeout then return true end
  for _, id in ipairs(redis.call('ZRANGE', places.open[member], 0, 9)) do
    if not has_lane(job[4] or '') then return true end
    local ready = redis.call('ZSCORE', places.lane[job[4] or ''], id)
    if ready and tonumber(ready) <= now + rules.turn_timeout then return true end
  end
  return false
end

-- Returns the first run of the member whose turn it is, and its lane. Without such a run, also
-- returns the time at which the turn of the member times out.
local function judge_turn()
  local state = redis.call('HMGET', gate.state, 'turn', 'since', 'ended', 'last_ended')
  local turn, since = state[1] or rules.order[1], whole(state[2], PARKED)
  if turn_of(rules.order, turn) == 0 then turn = '' end
  if not state[2] or since > now then since = now end
  local members = {unpack(rules.order)}
  members[#members + 1] = ''
  local function pass()
    local at = turn_of(members, turn)
    turn = members[at % #members + 1]
  end
  if state[3] then
    -- If the last holder is a member, the turn passes on from that member. A holder that is not a
    -- member, or that began before members took turns, takes no turn.
    local is_member = turn_of(rules.order, state[3]) > 0
    if is_member then turn = state[3] end
    if is_member or turn == '' then pass() end
    since = math.min(whole(state[4], PARKED), now)
  end
  local first, lane, opens
  if redis.call('ZCARD', gate.waiters) == 0 then
    -- No run waits, so the turn stays with its member. Jobs that are not members have no turn
    -- without a waiting run.
    if turn == '' then pass() end
  else
    for _ = 1, #members + 1 do
      first, lane = first_of(turn)
      if first or is_cut then break end
      if is_awaited(turn) and now < since + rules.turn_timeout then
        opens = since + rules.turn_timeout
        break
      end
      pass()
      since = now
    end
    -- A run waits, but no turn finds it: its lane is stuck, or its entry by job or by lane is lost.
    if not first and not opens and not is_cut and not next_look then opens = now + 1000 end
  end
  if is_cut then return end
  if state[1] ~= turn or state[2] ~= int(since) then redis.call('HSET', gate.state, 'turn', turn, 'since', int(since)) end
  if state[3] then redis.call('HDEL', gate.state, 'ended') end
  return first, lane, opens
end

take_back()
if not is_cut then try_again() end
sort_anew()
while not is_cut do
  local id, lane, opens
  if rules.order then
    if redis.call('ZCARD', gate.holders) > 0 then break end
    id, lane, opens = judge_turn()
  else
    id, lane = first_served(function() return first_of_all(gate) end)
  end
  if is_cut then break end
  if not id then
    if opens then look_at(opens) end
    break
  end
  if given == MOST then
    look_at(now)
    break
  end
  local limits = gate.kind == 'key' and redis.call('HGET', gate.state, 'job:' .. job_of(id)) or nil
  local may, at
  if rules.order then
    -- The turn was checked before, so only the time remains to be checked.
    at = group_opens(gate, rules, now)
    may = not at
  else
    may, at = may_enter(k, gate, job_of(id), limits, now, micros)
  end
  if not may then
    if at then look_at(at) end
    break
  end
  local before = redis.call('HGET', gate.state, 'before:' .. id)
  redis.call('ZADD', places.lane[lane], now, id)
  filled[places.lane[lane]] = true
  stop_waiting(gate, id)
  enter(gate, id, lane, now)
  -- Other runs may wait at the gates where this run has a place already.
  for _, name in ipairs(gate_names(before)) do set_gate_timer(k.gates.timers, {name = name}, now + MOMENT) end
  add_to_counter(k.counters, 'waiting', -1)
  given = given + 1
end
for due in pairs(filled) do count_change(k.nudge, 'due', due) end
if given + sent > 0 then wake_nodes(k.nudge, 'due', false) else count_change(k.nudge, 'due', false) end
if wanted[1] then
  -- The same reply asks for the lanes of the next runs.
  for _, first in ipairs(redis.call('ZRANGEBYSCORE', gate.lanes, 0, '+inf', 'LIMIT', 0, ASKED)) do
    local lane = string.match(first, ' (.*)$')
    if lane ~= wanted[1] and not places.lane[lane] then wanted[#wanted + 1] = lane end
  end
  if given == 0 then return {'lanes', wanted} end
  look_at(now)
end
if given > 0 and redis.call('ZCARD', gate.waiters) > 0 then look_at(now + MOMENT) end
if next_look then redis.call('ZADD', k.gates.timers, next_look, gate.name) else redis.call('ZREM', k.gates.timers, gate.name) end
return {'opened', given, next_look or ''}
