#!lua flags=no-writes,allow-oom
-- Lists for each lane the runs that may be claimed now, and the ready time of the next run.
-- Also replies with the number of leases, with the marks by which a node recognises the data, and with
-- the counters of changes. While these stay the same, no run of these lanes becomes due before the time
-- in the reply.
-- Lists enough runs of a queue for the caller to choose from: by priority up to the limits, and the
-- first runs of each lane. The first runs are needed because each tenth slot goes to the run that
-- has been ready longest.
-- No run is due while nodes restore data after a loss, or for a moment on a server that a node
-- polled for the first time.
-- Guard: none; the script only reads.
-- Keys: leases:any, epoch:any, fence:any, restoring_until:any, known_servers:any, gate_timers:any,
--   nudge (the counters of changes)
-- Keys of each item: due (the lanes of one queue follow each other, the most urgent first), running
--   (in that queue), queue (its settings), queue_state
-- Args: now, server (the id of this server, or '' if the server reports none), hold_ms (how long no
--   run is due on a server that was polled for the first time)
-- Args of each item: queue_name (of the lane), priority (of the lane), limit (how many due runs of
--   the lane to list, less those of the queue's lanes of a higher priority; 0 leaves the lane out),
--   more (the number of further runs of the lane to list, because the caller cannot take that many
--   of the listed runs, or looks ahead)
-- Reply due: now in microseconds, number of leases, epoch, last fence, end of the restoring of data
--   or 0, last fence at the first poll of this server ('' if it was never polled, '?' if that is
--   unknown), time until which no run is due because this server is new or 0, the counters of changes
--   ('' if missing, '?' if of another type), {time of the next gate check or '', {gates to check
--   now}}; then for each lane {next ready or '', {id, ready,
--   ...}, room, why there is no room}, or {'wrong_type', key, found, wanted}. The room is '' for
--   any number of runs. A queue without room lists no due runs, and has the reason only if a run is
--   due. An epoch or fence is '' if missing, and '?' if of another type
-- Reply wrong_type

-- Returns the reply for `key`, whose reading failed. The type is asked only then, because this script
-- runs more often than any other.
local function unreadable(key, wanted) return wrong_type({key, wanted}) or {'wrong_type', key, 'unknown', wanted} end
local leases = redis.pcall('ZCARD', k.leases)
if type(leases) == 'table' then return unreadable(k.leases, 'zset') end
local marks = redis.call('MGET', k.epoch, k.fence, k.restoring_until, k.nudge)
-- Returns a value that only marks the data. A wrong type, which MGET reads as missing, must not stop
-- the poll.
local function mark(at, key)
  local found = marks[at] or redis.pcall('GET', key)
  if type(found) == 'table' then return '?' end
  return found or ''
end
-- The longest time for restoring data, in ms. A later end means that Redis' clock was set back.
local MOST = 60000
local settled = whole(marks[3], PARKED)
if settled <= now or settled > now + MOST then settled = 0 end
local met, hold_until = '?', 0
if server ~= '' then
  local found = redis.pcall('HGET', k.known_servers, server)
  if type(found) ~= 'table' then
    local fence, met_at = string.match(found or ':0', '^(%d*):(%d+)$')
    met = fence or '?'
    hold_until = whole(met_at, PARKED) + tonumber(hold_ms)
    -- A first poll later than now means that Redis' clock was set back.
    if hold_until <= now or hold_until > now + tonumber(hold_ms) then hold_until = 0 end
  end
end
local closed = math.max(settled, hold_until)
local reply = {'due', micros, leases, mark(1, k.epoch), mark(2, k.fence), settled, met, hold_until, mark(4, k.nudge)}
-- The most gates in a reply.
local GATES = 20
local next_gate, open = '', {}
if closed == 0 then
  local found = redis.pcall('ZRANGE', k.gate_timers, 0, GATES - 1, 'WITHSCORES')
  for at = 1, #found, 2 do
    if tonumber(found[at + 1]) > now then
      next_gate = found[at + 1]
      break
    end
    open[#open + 1] = found[at]
  end
end
reply[#reply + 1] = {next_gate, open}
local FIRST = 10
local function is_to_come(score) return tonumber(score) > now and tonumber(score) < PARKED end
local queue, priority, taken, taken_above, queue_bad, capacity
for at = 1, item_count do
  local k = item(at)
  local due, limit, more = k.due, tonumber(k.limit), tonumber(k.more)
  if k.queue_name ~= queue then
    queue, priority, taken = k.queue_name, nil, 0
    queue_bad = type(redis.pcall('ZCARD', k.running)) == 'table' and unreadable(k.running, 'zset')
      or type(redis.pcall('HLEN', k.queue_state)) == 'table' and unreadable(k.queue_state, 'hash')
    if not queue_bad then
      local is_read
      is_read, capacity = pcall(queue_capacity, k, micros)
      if not is_read then queue_bad = unreadable(k.queue, 'hash') end
    end
  end
  -- Only the lanes of a higher priority take from a lane's limit, because the caller takes the runs of
  -- one priority by age. Each lane has a limit of its own: workers ask for different numbers of runs.
  if k.priority ~= priority then priority, taken_above = k.priority, taken end
  local head = redis.pcall('ZRANGE', due, 0, 0, 'WITHSCORES')
  local lane_bad = head.err and unreadable(due, 'zset') or queue_bad
  local first = not lane_bad and head[2]
  if lane_bad then
    reply[#reply + 1] = lane_bad
  elseif limit == 0 or not first and closed == 0 then
    reply[#reply + 1] = {'', {}, '', ''}
  elseif closed > 0 then
    reply[#reply + 1] = {int(closed), {}, '', ''}
  elseif capacity.capacity == 0 then
    -- The end of a run wakes the nodes when it frees a place. Only a rate limit has a known time of
    -- the next start. A run to come is polled again when it is due, because only then does the reply
    -- have the reason why it does not start.
    local is_due = tonumber(first) <= now
    local next_at = is_due and math.ceil((capacity.at or 0) / 1000) or tonumber(first)
    reply[#reply + 1] = {next_at > now and int(next_at) or '', {}, 0, is_due and capacity.why or ''}
  elseif is_to_come(first) and is_to_come(redis.call('ZRANGE', due, -1, -1, 'WITHSCORES')[2]) then
    reply[#reply + 1] = {first, {}, capacity.capacity or '', ''}
  else
    local most = math.max(limit - taken_above, math.floor(limit / FIRST) + 1)
    local due_now = redis.call('ZRANGE', due, '-inf', now, 'BYSCORE', 'LIMIT', 0, int(math.min(most, limit) + more), 'WITHSCORES')
    taken = taken + math.max(#due_now / 2 - more, 0)
    -- A score beyond the range of run times is listed, so that the caller can quarantine the run.
    -- Otherwise the run would never be found.
    local beyond = redis.call('ZRANGE', due, PARKED, '+inf', 'BYSCORE', 'LIMIT', 0, 10, 'WITHSCORES')
    for _, item in ipairs(beyond) do due_now[#due_now + 1] = item end
    local head = redis.call('ZRANGE', due, '(' .. int(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    reply[#reply + 1] = {head[2] or '', due_now, capacity.capacity or '', ''}
  end
end
return reply
