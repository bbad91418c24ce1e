#!lua flags=no-writes,allow-oom
-- Lists for each lane the runs that may be claimed now, and the ready time of the next run.
-- Also replies with the number of leases, with the marks by which a node recognises the data, and with
-- the counters of changes. While these stay the same, no run of these lanes becomes due before the time
-- in the reply.
-- Lists enough runs of a queue for the caller to choose from: by priority up to the limit, and the
-- first runs of each lane. The first runs are needed because each tenth slot goes to the run that
-- has been ready longest.
-- No run is due while nodes restore data after a loss, or for a moment on a server that a node
-- polled for the first time.
-- Guard: none; the script only reads.
-- KEYS 1 leases
-- KEYS 2 epoch
-- KEYS 3 fence
-- KEYS 4 restoring_until
-- KEYS 5 known_servers
-- KEYS 6 gate_timers
-- KEYS 7 nudge: the counters of changes
-- KEYS* due: the lanes of one queue follow each other, the most urgent first
-- KEYS* running: in that queue
-- KEYS* queue: its settings
-- KEYS* queue_state
-- ARGV 1 now
-- ARGV 2 server: the id of this server, or '' if the server reports none
-- ARGV 3 hold_ms: how long no run is due on a server that was polled for the first time
-- ARGV* queue: of the lane
-- ARGV* priority: of the lane
-- ARGV* limit: how many due runs of the queue to list; 0 leaves the lane out
-- ARGV* more: the number of further runs of the lane to list, because the caller cannot take that
--   many of the listed runs
-- Reply due: now in microseconds, number of leases, epoch, last fence, end of the restoring of data
--   or 0, last fence at the first poll of this server ('' if it was never polled, '?' if that is
--   unknown), time until which no run is due because this server is new or 0, the counters of changes
--   ('' if missing, '?' if of another type), {time of the next gate check or '', {gates to check
--   now}}; then for each lane {next ready or '', {id, ready,
--   ...}, room, why there is no room}, or {'wrong_type', key, found, wanted}. The room is '' for
--   any number of runs. A queue without room lists no due runs, and has the reason only if a run is
--   due. An epoch or fence is '' if missing, and '?' if of another type
-- Reply wrong_type
local now, micros = clock(ARGV[1])
-- Returns the reply for `key`, whose reading failed. The type is asked only then, because this script
-- runs more often than any other.
local function unreadable(key, wanted) return wrong_type({key, wanted}) or {'wrong_type', key, 'unknown', wanted} end
local leases = redis.pcall('ZCARD', KEYS[1])
if type(leases) == 'table' then return unreadable(KEYS[1], 'zset') end
local marks = redis.call('MGET', KEYS[2], KEYS[3], KEYS[4], KEYS[7])
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
if ARGV[2] ~= '' then
  local found = redis.pcall('HGET', KEYS[5], ARGV[2])
  if type(found) ~= 'table' then
    local fence, met_at = string.match(found or ':0', '^(%d*):(%d+)$')
    met = fence or '?'
    hold_until = whole(met_at, PARKED) + tonumber(ARGV[3])
    -- A first poll later than now means that Redis' clock was set back.
    if hold_until <= now or hold_until > now + tonumber(ARGV[3]) then hold_until = 0 end
  end
end
local closed = math.max(settled, hold_until)
local reply = {'due', micros, leases, mark(1, KEYS[2]), mark(2, KEYS[3]), settled, met, hold_until, mark(4, KEYS[7])}
-- The most gates in a reply.
local GATES = 20
local next_gate, open = '', {}
if closed == 0 then
  local found = redis.pcall('ZRANGE', KEYS[6], 0, GATES - 1, 'WITHSCORES')
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
local queue, priority, left, rest, queue_bad, capacity
for item = 1, (#KEYS - 7) / 4 do
  local at, arg = item * 4 + 4, item * 4
  local due, limit, more = KEYS[at], tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3])
  if ARGV[arg] ~= queue then
    queue, priority, rest = ARGV[arg], nil, limit
    queue_bad = type(redis.pcall('ZCARD', KEYS[at + 1])) == 'table' and unreadable(KEYS[at + 1], 'zset')
      or type(redis.pcall('HLEN', KEYS[at + 3])) == 'table' and unreadable(KEYS[at + 3], 'hash')
    if not queue_bad then
      local is_read
      is_read, capacity = pcall(queue_capacity, KEYS[at + 2], KEYS[at + 1], KEYS[at + 3], micros)
      if not is_read then queue_bad = unreadable(KEYS[at + 2], 'hash') end
    end
  end
  -- The lanes of one priority get the same limit, because the caller takes runs from them by age.
  if ARGV[arg + 1] ~= priority then priority, left = ARGV[arg + 1], rest end
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
    local most = math.max(left, math.floor(limit / FIRST) + 1)
    local due_now = redis.call('ZRANGE', due, '-inf', now, 'BYSCORE', 'LIMIT', 0, int(math.min(most, limit) + more), 'WITHSCORES')
    rest = math.max(rest - math.max(#due_now / 2 - more, 0), 0)
    -- A score beyond the range of run times is listed, so that the caller can quarantine the run.
    -- Otherwise the run would never be found.
    local beyond = redis.call('ZRANGE', due, PARKED, '+inf', 'BYSCORE', 'LIMIT', 0, 10, 'WITHSCORES')
    for _, item in ipairs(beyond) do due_now[#due_now + 1] = item end
    local head = redis.call('ZRANGE', due, '(' .. int(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    reply[#reply + 1] = {head[2] or '', due_now, capacity.capacity or '', ''}
  end
end
return reply
