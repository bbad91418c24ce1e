#!lua flags=no-writes,allow-oom
-- Tells for each lane which runs may be claimed now and when the next one may, how many leases there are, and by which marks
-- this is the data it was. Of a queue so many are told that its caller finds what it is to take: those of the greatest
-- priority up to the limit, and the first ones of each lane, for each tenth slot is for the run that is ready longest. While the
-- data settles after a loss nothing is ripe, nor for a moment on a server that nodes have just met.
-- Guard: none; it only reads.
-- KEYS 1 leases
-- KEYS 2 epoch
-- KEYS 3 fence
-- KEYS 4 settling
-- KEYS 5 servers
-- KEYS 6 gate_wakes
-- KEYS* due: the lanes of one queue stand together, the most urgent first
-- KEYS* running: in that queue
-- KEYS* queue: its settings
-- KEYS* queue_state
-- ARGV 1 now
-- ARGV 2 server: this one, or '' if it does not say which it is
-- ARGV 3 hold_ms: how long nothing is ripe on a server just met
-- ARGV* queue: of the lane
-- ARGV* priority: of the lane
-- ARGV* limit: how many ripe runs of the queue are asked for; 0 leaves it out
-- ARGV* more: so many of the lane beyond that, which the caller has to leave where they are
-- Reply ripe: now in microseconds, number of leases, epoch, last fence, when the data has settled or 0, the last fence when
-- this server was met or '' if it was not, or '?' if that cannot be known, until when nothing is ripe because it was met just now or 0,
-- {when the next gate is to be looked at or '', {gates that are now}};
-- then for each lane {next ready or '', {id, ready, ...}, room, why it has none}, or {'wrong_type', key, found, wanted}. Room is ''
-- for any number; a queue without shows no ripe runs, and why only if it has some. Of epoch and fence '' means gone, '?' another type
-- Reply wrong_type
local now, micros = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'zset'})
if bad then return bad end
-- A mark that is spoilt must not stop what it only marks.
local function mark(key)
  local found = redis.pcall('GET', key)
  if type(found) == 'table' then return '?' end
  return found or ''
end
-- Longer than data ever settles: Redis' clock was set back meanwhile.
local MOST = 60000
local settled = whole(mark(KEYS[4]), PARKED)
if settled <= now or settled > now + MOST then settled = 0 end
local met, held = '?', 0
if ARGV[2] ~= '' then
  local found = redis.pcall('HGET', KEYS[5], ARGV[2])
  if type(found) ~= 'table' then
    local fence, met_at = string.match(found or ':0', '^(%d*):(%d+)$')
    met = fence or '?'
    held = whole(met_at, PARKED) + tonumber(ARGV[3])
    -- Met later than now: Redis' clock was set back meanwhile.
    if held <= now or held > now + tonumber(ARGV[3]) then held = 0 end
  end
end
local closed = math.max(settled, held)
local reply = {'ripe', micros, redis.call('ZCARD', KEYS[1]), mark(KEYS[2]), mark(KEYS[3]), settled, met, held}
-- Gates told at most.
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
local queue, priority, left, rest, queue_bad, room
for item = 1, (#KEYS - 6) / 4 do
  local at, arg = item * 4 + 3, item * 4
  local due, limit, more = KEYS[at], tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3])
  if ARGV[arg] ~= queue then
    queue, priority, rest = ARGV[arg], nil, limit
    queue_bad = wrong_type({KEYS[at + 1], 'zset', KEYS[at + 2], 'hash', KEYS[at + 3], 'hash'})
    room = not queue_bad and limit > 0 and closed == 0 and room_in(KEYS[at + 2], KEYS[at + 1], KEYS[at + 3], micros)
  end
  -- Lanes of one priority are told alike: the caller takes from them by age.
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
  elseif room.room == 0 then
    -- What frees a place says so, and a rate tells when it will have one.
    local next_at = math.max(tonumber(first), room.at and math.ceil(room.at / 1000) or 0)
    local is_ripe = tonumber(first) <= now
    reply[#reply + 1] = {next_at > now and int(next_at) or '', {}, 0, is_ripe and room.why or ''}
  elseif is_to_come(first) and is_to_come(redis.call('ZRANGE', due, -1, -1, 'WITHSCORES')[2]) then
    reply[#reply + 1] = {first, {}, room.room or '', ''}
  else
    local most = math.max(left, math.floor(limit / FIRST) + 1)
    local ripe = redis.call('ZRANGE', due, '-inf', now, 'BYSCORE', 'LIMIT', 0, int(math.min(most, limit) + more), 'WITHSCORES')
    rest = math.max(rest - math.max(#ripe / 2 - more, 0), 0)
    -- Past every instant a run may have: shown so that the caller can quarantine it; it would hide here for ever.
    local beyond = redis.call('ZRANGE', due, PARKED, '+inf', 'BYSCORE', 'LIMIT', 0, 10, 'WITHSCORES')
    for _, item in ipairs(beyond) do ripe[#ripe + 1] = item end
    local head = redis.call('ZRANGE', due, '(' .. int(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    reply[#reply + 1] = {head[2] or '', ripe, room.room or '', ''}
  end
end
return reply
