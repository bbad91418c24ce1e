#!lua flags=allow-oom
-- Gives the places that are free at a gate to those that wait there, in due order or by turns: each goes back to its lane with its
-- place, ready now. One that was let in and does not begin in a moment while others wait gives its place up first: it stays due, and
-- no other run of its lane is let in as long as it stands there. Then says when to look again.
-- Guard: everything is looked at anew, so that any node may call it at any time. At most 100 a call, the rest is due at once.
-- KEYS 1 nudge
-- KEYS 2 totals
-- KEYS 3 jobs
-- KEYS 4 leases
-- KEYS 5 shunned_lately
-- KEYS* place: the due set of a lane, the job of a member, or its open runs
-- KEYS+ gate_wakes, then held, queued, by_job, state and rules: of the gate
-- ARGV 1 now
-- ARGV 2 gates: the gate
-- ARGV* kind: lane, job or open
-- ARGV* name
-- Reply opened: how many were given a place, when to look again or ''
-- Reply lane: one that waits goes to this lane, one that was let in stands in it, or a member is due in it; the call does not have it
-- Reply members: of the group; the call does not have all their jobs and open runs
-- Reply wrong_type: key, found, wanted
local MOST = 100
-- Of those that wait so many are passed over at most whose lane takes nothing.
local PASSED = 10000
local now, micros = clock(ARGV[1])
local nudge, totals, jobs = KEYS[1], KEYS[2], KEYS[3]
local gates, last = gates_of(ARGV[2])
local gate = gates[ARGV[2]]
local k = {leases = KEYS[4], shunned_lately = KEYS[5]}
local bad = wrong_type({totals, 'hash', jobs, 'zset', k.leases, 'zset', k.shunned_lately, 'zset'}) or spoilt_gate(gates, {ARGV[2]})
if bad then return bad end
local places = {lane = {}, job = {}, open = {}}
for at = 6, last do
  local kind, name = ARGV[at * 2 - 9], ARGV[at * 2 - 8]
  local place_bad = wrong_type({KEYS[at], kind == 'job' and 'hash' or 'zset'})
  if place_bad then return place_bad end
  places[kind][name] = KEYS[at]
end
local rules = gate.kind == 'group' and group_rules(gate) or {}
for _, member in ipairs(rules.order or {}) do
  if not places.job[member] or not places.open[member] then return {'members', rules.text} end
end

local given, next_look, wanted_lane = 0, nil, nil
local function look_at(at) next_look = math.min(next_look or at, at) end

-- Takes their places from those that were let in, stand in their lane, and have not begun in a moment, if others wait.
local function take_back()
  if redis.call('ZCARD', gate.queued) == 0 then return end
  local idle = redis.call('ZREVRANGEBYSCORE', gate.held, '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, MOST)
  for at = 1, #idle, 2 do
    local id, since = idle[at], -tonumber(idle[at + 1])
    if since <= now and now - since < MOMENT then return look_at(since + MOMENT) end
    local lane = redis.call('HGET', gate.state, 'lane:' .. id)
    if lane and not places.lane[lane] then
      wanted_lane = lane
      return
    end
    local ready = lane and redis.call('ZSCORE', places.lane[lane], id)
    ready = ready and tonumber(ready)
    if since > now or not ready then
      -- The clock was set back; or it waits at a later gate, which has this one looked at when it lets it in.
      hold_place(gate, id, -now)
      if ready then look_at(now + MOMENT) end
    elseif now - ready < MOMENT then
      look_at(ready + MOMENT)
    else
      redis.call('HSET', gate.state, 'stuck:' .. lane, id .. ' ' .. int(now + TRY))
      drop_place(gate, id)
    end
  end
  if #idle == 2 * MOST then look_at(now) end
end

-- Whether one stands in a lane that did not begin from there. Only then until when others of it are kept out.
local stuck, kept_out = {}, nil
local function is_stuck(lane)
  if stuck[lane] == nil then
    local mark = redis.call('HGET', gate.state, 'stuck:' .. lane)
    if not mark then
      stuck[lane] = false
      return false
    end
    if not places.lane[lane] then
      wanted_lane = lane
      return true
    end
    local id, ends = string.match(mark, '^(%S+) (%d+)$')
    ends = whole(ends, PARKED)
    stuck[lane] = ends > now and ends <= now + TRY and redis.call('ZSCORE', places.lane[lane], id) and ends or false
    if not stuck[lane] then redis.call('HDEL', gate.state, 'stuck:' .. lane) end
  end
  if stuck[lane] then kept_out = math.min(kept_out or stuck[lane], stuck[lane]) end
  return stuck[lane]
end

local function lane_of(id) return redis.call('HGET', gate.state, 'lane:' .. id) or '' end

-- The first that waits, of those `is_one` names.
local passed = 0
local function first_free(is_one)
  while passed < PASSED do
    local ids = redis.call('ZRANGE', gate.queued, passed, passed == 0 and 0 or passed + MOST - 1)
    if not ids[1] then return end
    for _, id in ipairs(ids) do
      if is_one(id) and not is_stuck(lane_of(id)) then return id end
      if wanted_lane then return end
      passed = passed + 1
    end
  end
end

-- The first that waits of those whose turn it is; '' are all that are no members.
local function first_of(turn)
  if turn == '' then
    passed = 0
    return first_free(function(id) return turn_of(rules.order, job_of(id)) == 0 end)
  end
  local id = first_of_job(gate, turn)
  if id and not is_stuck(lane_of(id)) then return id end
end

-- Whether a member without a run that waits is worth waiting for: its planned run comes in time, or one that has begun does.
local function is_awaited(member)
  if member == '' then return false end
  local job = redis.call('HMGET', places.job[member], 'rev', 'ended', 'paused', 'queue')
  local due = redis.call('ZSCORE', jobs, member)
  if job[1] and not job[2] and not job[3] and due and tonumber(due) <= now + rules.patience then return true end
  for _, id in ipairs(redis.call('ZRANGE', places.open[member], 0, 9)) do
    if not places.lane[job[4] or ''] then
      wanted_lane = job[4] or ''
      return true
    end
    local ready = redis.call('ZSCORE', places.lane[job[4] or ''], id)
    if ready and tonumber(ready) <= now + rules.patience then return true end
  end
  return false
end

-- Whose turn it is, the first of its runs, and when its patience is over if there is none.
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
    -- Where members did not take turns when it began, the turn was another's; one that is no member takes none of theirs.
    local is_member = turn_of(rules.order, state[3]) > 0
    if is_member then turn = state[3] end
    if is_member or turn == '' then pass() end
    since = math.min(whole(state[4], PARKED), now)
  end
  local first, opens
  if redis.call('ZCARD', gate.queued) == 0 then
    -- Nobody is there to pass it to; but those that are none have no turn without one that waits.
    if turn == '' then pass() end
  else
    for _ = 1, #members + 1 do
      first = first_of(turn)
      if first or wanted_lane then break end
      if is_awaited(turn) and now < since + rules.patience then
        opens = since + rules.patience
        break
      end
      pass()
      since = now
    end
    -- Somebody waits whom no turn names: one whose lane takes nothing, one behind many others, or one whose entry by job is lost.
    if not first and not opens then opens = kept_out or now + 1000 end
  end
  if wanted_lane then return end
  if state[1] ~= turn or state[2] ~= int(since) then redis.call('HSET', gate.state, 'turn', turn, 'since', int(since)) end
  if state[3] then redis.call('HDEL', gate.state, 'ended') end
  return turn, first, opens
end

take_back()
while not wanted_lane do
  local id, opens, _
  if rules.order then
    if redis.call('ZCARD', gate.held) > 0 then break end
    _, id, opens = judge_turn()
  else
    id = first_free(function() return true end)
    opens = kept_out
  end
  if wanted_lane then break end
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
    -- Its turn was judged: only the gap is left.
    local ends = whole(redis.call('HGET', gate.state, 'last_ended'), PARKED) + rules.gap
    may = not (ends > now and ends <= now + rules.gap)
    at = ends
  else
    may, at = may_enter(k, gate, job_of(id), limits, now, micros)
  end
  if not may then
    if at then look_at(at) end
    break
  end
  local lane = lane_of(id)
  if not places.lane[lane] then
    wanted_lane = lane
    break
  end
  local before = redis.call('HGET', gate.state, 'before:' .. id)
  redis.call('ZADD', places.lane[lane], now, id)
  stop_waiting(gate, id)
  enter(gate, id, lane, now)
  -- Where it has its place already others may wait, too.
  for _, name in ipairs(gate_names(before)) do wake_gate(gates.wakes, {name = name}, now + MOMENT) end
  tally(totals, 'waiting', -1)
  given = given + 1
end
if wanted_lane then
  if given == 0 then return {'lane', wanted_lane} end
  look_at(now)
end
if given > 0 and redis.call('ZCARD', gate.queued) > 0 then look_at(now + MOMENT) end
if next_look then redis.call('ZADD', gates.wakes, next_look, gate.name) else redis.call('ZREM', gates.wakes, gate.name) end
if given > 0 then redis.call('PUBLISH', nudge, 'due') end
return {'opened', given, next_look or ''}
