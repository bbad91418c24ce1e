-- The lanes that nodes poll, and the room of a queue: its limit, rate and pause.

-- Records that a lane is in use, and wakes the nodes if the lane is new. The plain lane of a queue
-- needs no record, because nodes know the lane by its queue.
local function note_lane(lanes, channel, lane, now)
  if not string.find(lane, '[!~+=]') then return end
  if redis.call('ZADD', lanes, now, lane) == 1 then wake_nodes(channel, 'lanes', false) end
end

-- The most registered lanes. Nodes poll no others.
local LANES = 10000

-- Returns true if `lane` would be a new lane beyond the bound.
local function is_lane_refused(lanes, lane)
  return string.find(lane, '[!~+=]') and redis.call('ZCARD', lanes) >= LANES and not redis.call('ZSCORE', lanes, lane)
end

-- The largest limit, rate or burst of a queue; and the longest period of its rate, in ms.
local POOL, LONGEST_RATE = 1000000, 86400000
-- The largest step back of the clock after which a rate limit continues its count, in microseconds.
local SET_BACK = 60000000

-- Returns how many more runs a rate limit lets begin, and the state of the limit: `tat` and `part`.
-- If that number is 0, the second result is the time in microseconds at which the next run may
-- begin.
-- `tat` is the time in microseconds up to which begun runs have used the limit. `part` is the used
-- part of the next microsecond, in units of 1/count. The arithmetic is exact, so no rounding error
-- adds up.
local function rate_capacity(state, count, per, burst, micros)
  local stored = redis.call('HMGET', state, 'tat', 'part', 'at')
  local tat, part, at = whole(stored[1], FENCE), whole(stored[2], POOL), whole(stored[3], FENCE)
  -- After a change of the rate limit, the used time ends at most one whole burst of the new limit
  -- after the last begun run.
  local most = at + math.ceil(burst * per / count)
  if tat > most then tat, part = most, 0 end
  if tat < micros or at > micros + SET_BACK then tat, part = micros, 0 end
  if part >= count then part = count - 1 end
  local capacity = math.floor((burst * per - (tat - micros) * count - part) / per)
  if capacity > 0 then return capacity, nil, tat, part end
  return 0, math.max(tat + math.ceil((part + per - burst * per) / count), micros + 1), tat, part
end

-- Returns how many more runs of a queue may begin: `capacity`, or nil for any number. If `capacity`
-- is 0, `why` is the reason, and `at` is the time in microseconds at which the rate limit makes
-- room, or nil. `take` records that runs have begun.
local function queue_capacity(k, micros)
  local set = redis.call('HMGET', k.queue, 'paused', 'limit', 'rate_count', 'rate_ms', 'burst')
  local capacity, why, at = nil, nil, nil
  if set[1] then return {capacity = 0, why = 'paused'} end
  local limit = whole(set[2], POOL)
  if limit > 0 then
    capacity = math.max(limit - redis.call('ZCARD', k.running), 0)
    if capacity == 0 then why = 'full' end
  end
  local count, per = whole(set[3], POOL), whole(set[4], LONGEST_RATE) * 1000
  if count == 0 or per == 0 then return {capacity = capacity, why = why} end
  local burst = whole(set[5], POOL)
  if burst == 0 then burst = count end
  local rated, opens, tat, part = rate_capacity(k.queue_state, count, per, burst, micros)
  if rated == 0 and capacity ~= 0 then why, at = 'rate', opens end
  capacity = math.min(capacity or rated, rated)
  return {capacity = capacity, why = why, at = at, take = function(taken)
    local total = part + taken * per
    redis.call('HSET', k.queue_state, 'tat', int(tat + math.floor(total / count)), 'part', int(total % count), 'at', int(micros))
  end}
end

-- Removes `id` from the running runs of its queue. If the queue was at its limit, the nodes are
-- woken, because they do not poll for room.
local function leave_queue(k, id)
  if redis.call('ZREM', k.running, id) == 0 then return end
  local limit = whole(redis.call('HGET', k.queue, 'limit'), POOL)
  if limit > 0 and redis.call('ZCARD', k.running) == limit - 1 then wake_nodes(k.nudge, 'due', false) end
end
