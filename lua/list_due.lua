#!lua flags=no-writes,allow-oom
-- Lists for each lane the runs that may be claimed now, and the time of the next one.
-- Also answers the number of leases, and the marks by which a node knows that this is the same
-- data.
-- A queue lists enough runs for the caller to choose from: by priority up to the limit, and the
-- first runs of each lane.
-- The first runs are needed because each tenth slot goes to the run that has been ready longest.
-- No run is due while the data settles after a loss, or for a moment on a server that nodes have
-- just met.
-- Guard: none; it only reads.
-- KEYS 1 leases
-- KEYS 2 epoch
-- KEYS 3 fence
-- KEYS 4 restoring_until
-- KEYS 5 known_servers
-- KEYS 6 gate_timers
-- KEYS* due: the lanes of one queue follow each other, the most urgent first
-- KEYS* running: in that queue
-- KEYS* queue: its settings
-- KEYS* queue_state
-- ARGV 1 now
-- ARGV 2 server: the id of this server, or '' if it does not name itself
-- ARGV 3 hold_ms: how long no run is due on a server just met
-- ARGV* queue: of the lane
-- ARGV* priority: of the lane
-- ARGV* limit: how many due runs of the queue to list; 0 leaves the lane out
-- ARGV* more: how many more runs of the lane to list, because the caller must leave so many where
--   they are
-- Reply due: now in microseconds, number of leases, epoch, last fence, when the data has settled
--   or 0, the last fence when this server was met ('' if it was not, '?' if that is unknown), until
--   when no run is due because it was met just now or 0, {when the next gate is to be visited or
--   '', {gates to visit now}};
-- then for each lane {next ready or '', {id, ready, ...}, room, why there is none}, or
-- {'wrong_type', key, found, wanted}.
-- Room is '' for any number; a queue without room lists no due runs, and gives the reason only if
-- it has some.
-- For epoch and fence '' means missing, '?' another type
-- Reply wrong_type
local now, micros = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'zset'})
if bad then return bad end
-- Reads a key that only marks the data; a wrong type must not stop the poll.
local function mark(key)
  local found = redis.pcall('GET', key)
  if type(found) == 'table' then return '?' end
  return found or ''
end
-- Data never settles for longer than this (ms): a later end means that Redis' clock was set back.
local MOST = 60000
local settled = whole(mark(KEYS[4]), PARKED)
if settled <= now or settled > now + MOST then settled = 0 end
local met, hold_until = '?', 0
if ARGV[2] ~= '' then
  local found = redis.pcall('HGET', KEYS[5], ARGV[2])
  if type(found) ~= 'table' then
    local fence, met_at = string.match(found or ':0', '^(%d*):(%d+)$')
    met = fence or '?'
    hold_until = whole(met_at, PARKED) + tonumber(ARGV[3])
    -- The server was met later than now: Redis' clock was set back.
    if hold_until <= now or hold_until > now + tonumber(ARGV[3]) then hold_until = 0 end
  end
end
local closed = math.max(settled, hold_until)
local reply = {'due', micros, redis.call('ZCARD', KEYS[1]), mark(KEYS[2]), mark(KEYS[3]), settled, met, hold_until}
-- The most gates in a reply.
local GATES = 20
local next_gate, open = '', {}
if closed == 0 and not wrong_type({KEYS[6], 'zset'}) then
  local found = redis.call('ZRANGE', KEYS[6], 0, GATES - 1, 'WITHSCORES')
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
for item = 1, (#KEYS - 6) / 4 do
  local at, arg = item * 4 + 3, item * 4
  local due, limit, more = KEYS[at], tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3])
  if ARGV[arg] ~= queue then
    queue, priority, rest = ARGV[arg], nil, limit
    queue_bad = wrong_type({KEYS[at + 1], 'zset', KEYS[at + 2], 'hash', KEYS[at + 3], 'hash'})
    capacity = not queue_bad and limit > 0 and closed == 0 and queue_capacity(KEYS[at + 2], KEYS[at + 1], KEYS[at + 3], micros)
  end
  -- The lanes of one priority get the same limit, because the caller takes runs from them by age.
  if ARGV[arg + 1] ~= priority then priority, left = ARGV[arg + 1], rest end
  local head = redis.pcall('ZRANGE', due, 0, 0, 'WITHSCORES')
  local lane_bad = head.err and (wrong_type({due, 'zset'}) or {'wrong_type', due, 'unknown', 'zset'}) or queue_bad
  local first = not lane_bad and head[2]
  if lane_bad then
    reply[#reply + 1] = lane_bad
  elseif limit == 0 or not first and closed == 0 then
    reply[#reply + 1] = {'', {}, '', ''}
  elseif closed > 0 then
    reply[#reply + 1] = {int(closed), {}, '', ''}
  elseif capacity.capacity == 0 then
    -- The end of a run wakes the nodes when it frees a place; only a rate has a known time of its
    -- next start.
    local next_at = math.max(tonumber(first), capacity.at and math.ceil(capacity.at / 1000) or 0)
    local is_due = tonumber(first) <= now
    reply[#reply + 1] = {next_at > now and int(next_at) or '', {}, 0, is_due and capacity.why or ''}
  elseif is_to_come(first) and is_to_come(redis.call('ZRANGE', due, -1, -1, 'WITHSCORES')[2]) then
    reply[#reply + 1] = {first, {}, capacity.capacity or '', ''}
  else
    local most = math.max(left, math.floor(limit / FIRST) + 1)
    local due_now = redis.call('ZRANGE', due, '-inf', now, 'BYSCORE', 'LIMIT', 0, int(math.min(most, limit) + more), 'WITHSCORES')
    rest = math.max(rest - math.max(#due_now / 2 - more, 0), 0)
    -- A score past the range of run times is listed, so that the caller can quarantine the run
    -- instead of losing it here.
    local beyond = redis.call('ZRANGE', due, PARKED, '+inf', 'BYSCORE', 'LIMIT', 0, 10, 'WITHSCORES')
    for _, item in ipairs(beyond) do due_now[#due_now + 1] = item end
    local head = redis.call('ZRANGE', due, '(' .. int(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    reply[#reply + 1] = {head[2] or '', due_now, capacity.capacity or '', ''}
  end
end
return reply
