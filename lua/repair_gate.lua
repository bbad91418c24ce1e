#!lua flags=allow-oom
-- Repairs one gate to match the records of runs. Runs that must have no place leave the gate, and
-- waiting runs are put into the orders by job and by lane. A run that is only in quarantine loses
-- its place; when an operator restores the run, its claim passes the gate again. The gate is then
-- checked.
-- Guard: the script checks each given run again, at most 1,000 a call; a correct place is not
-- changed.
-- Keys: counters, nudge, quarantine
-- Keys of each item: run, due (of the run's lane, as the caller read it)
-- Gates: the keys of the gates in the argument gates
-- Args: now, gates (the gate, then other gates that runs in quarantine name)
-- Args of each item: id, lane (as the caller read it)
-- Reply repaired: the number of runs that left the gate
-- Reply wrong_type: key, found, wanted

-- The last index of each order that is compared with the other orders.
local ENTRIES = 9999
local names = gate_names(gates)
local gates = k.gates
local gate = gates[names[1]]
local bad = gate_wrong_type(gates, names)
for at = 1, item_count do bad = bad or wrong_item_type(at) end
if bad then return bad end

-- Returns true if a scheduled run is in quarantine, in no due set and at no gate.
local function is_aside(run, id, due, lane)
  if run[1] ~= 'scheduled' or (run[3] or '') ~= lane or redis.call('HEXISTS', k.quarantine, id) == 0 then return false end
  if redis.call('ZSCORE', due, id) then return false end
  for _, name in ipairs(gate_names(run[2])) do
    if not gates[name] or redis.call('ZSCORE', gates[name].waiters, id) then return false end
  end
  return true
end

local left = 0
for at = 1, item_count do
  local k = item(at)
  local id, lane = k.id, k.lane
  local run = redis.call('HMGET', k.run, 'state', 'places', 'queue')
  local has_place = false
  for _, name in ipairs(gate_names(run[2])) do has_place = has_place or name == gate.name end
  if not has_place or run[1] ~= 'scheduled' and run[1] ~= 'running' then
    local has_waited = stop_waiting(gate, id)
    if has_waited then add_to_counter(k.counters, 'waiting', -1) end
    local had_place = redis.call('ZREM', gate.holders, id) == 1
    local had_lane = forget_lane(gates.timers, gate, id, now)
    local had_before = redis.call('HDEL', gate.state, 'before:' .. id) == 1
    if has_waited or had_place or had_lane or had_before then left = left + 1 end
  elseif redis.call('ZSCORE', gate.waiters, id) then
    local known = redis.call('HGET', gate.state, 'lane:' .. id)
    local own = known or string.match(lane, '^%S+$') or 'default'
    if not known then redis.call('HSET', gate.state, 'lane:' .. id, own) end
    for _, found in ipairs(lanes_of_job(gate, job_of(id))) do
      if found.lane ~= own then take_from_orders(gate, id, found.lane) end
    end
    add_to_orders(gate, id, own)
    redis.call('ZREM', gate.holders, id)
  elseif is_aside(run, id, k.due, lane) then
    left = left + redis.call('ZREM', gate.holders, id)
    forget_lane(gates.timers, gate, id, now)
  end
end
-- The loops below remove entries that the orders must not contain.
for _, entry in ipairs(redis.call('ZRANGE', gate.by_job, 0, ENTRIES)) do
  if not redis.call('ZSCORE', gate.waiters, string.match(entry, '(%S+)$') or '') then redis.call('ZREM', gate.by_job, entry) end
end
for _, entry in ipairs(redis.call('ZRANGE', gate.by_lane, 0, ENTRIES)) do
  local of_lane, id = string.match(entry, '^(.*) %S+ (%S+)$')
  local first = id and first_entries(gate.by_job, job_of(id) .. ' ' .. of_lane)[1]
  if not id or first ~= job_of(id) .. ' ' .. entry then
    redis.call('ZREM', gate.by_lane, entry)
    if first then redis.call('ZADD', gate.by_lane, 0, string.match(first, '^%S+ (.*)$')) end
  end
end
for _, entry in ipairs(redis.call('ZRANGE', gate.lanes, 0, ENTRIES)) do
  local id, of_lane = string.match(entry, '^(%S+) (.*)$')
  local first = id and first_entries(gate.by_lane, of_lane)[1]
  if not first or string.match(first, '(%S+)$') ~= id then redis.call('ZREM', gate.lanes, entry) end
  if first then set_first_of_lane(gate, of_lane, first) end
end
set_gate_timer(gates.timers, gate, now)
wake_nodes(k.nudge, 'due')
return {'repaired', left}
