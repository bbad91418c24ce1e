#!lua flags=no-writes,allow-oom
-- Tells for each queue which runs may be claimed now and when the next one may, how many leases there are, and by which marks
-- this is the data it was. While the data settles after a loss nothing is ripe, nor for a moment on a server that nodes have
-- just met.
-- Guard: none; it only reads.
-- KEYS 1 leases
-- KEYS 2 epoch
-- KEYS 3 fence
-- KEYS 4 settling
-- KEYS 5 servers
-- KEYS* due
-- KEYS* running: in that queue
-- KEYS* queue: its settings
-- KEYS* queue_state
-- ARGV 1 now
-- ARGV 2 server: this one, or '' if it does not say which it is
-- ARGV 3 hold_ms: how long nothing is ripe on a server just met
-- ARGV* limit: how many ripe runs at most; 0 leaves the queue out
-- Reply ripe: now in microseconds, number of leases, epoch, last fence, when the data has settled or 0, the last fence when
-- this server was met or '' if it was not, or '?' if that cannot be known, until when nothing is ripe because it was met just now or 0;
-- then for each queue {next ready or '', {id, ready, ...}, room, why it has none}, or {'wrong_type', key, found, wanted}. Room is ''
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
for item = 1, #ARGV - 3 do
  local at = item * 4 + 2
  local due, limit = KEYS[at], tonumber(ARGV[item + 3])
  local queue_bad = wrong_type({due, 'zset', KEYS[at + 1], 'zset', KEYS[at + 2], 'hash', KEYS[at + 3], 'hash'})
  local room = not queue_bad and limit > 0 and closed == 0 and room_in(KEYS[at + 2], KEYS[at + 1], KEYS[at + 3], micros)
  if queue_bad then
    reply[#reply + 1] = queue_bad
  elseif limit == 0 then
    reply[#reply + 1] = {'', {}, '', ''}
  elseif closed > 0 then
    reply[#reply + 1] = {int(closed), {}, '', ''}
  elseif room.room == 0 then
    -- What frees a place says so, and a rate tells when it will have one.
    local head = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
    local first = head and math.max(tonumber(head), room.at and math.ceil(room.at / 1000) or 0)
    local is_ripe = head and tonumber(head) <= now
    reply[#reply + 1] = {first and first > now and int(first) or '', {}, 0, is_ripe and room.why or ''}
  else
    local ripe = redis.call('ZRANGE', due, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
    -- Past every instant a run may have: shown so that the caller can quarantine it; it would hide here for ever.
    local beyond = redis.call('ZRANGE', due, PARKED, '+inf', 'BYSCORE', 'LIMIT', 0, 10, 'WITHSCORES')
    for _, item in ipairs(beyond) do ripe[#ripe + 1] = item end
    local head = redis.call('ZRANGE', due, '(' .. int(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    reply[#reply + 1] = {head[2] or '', ripe, room.room or '', ''}
  end
end
return reply
