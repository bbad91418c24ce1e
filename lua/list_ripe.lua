#!lua flags=no-writes,allow-oom
-- Tells for each queue which runs may be claimed now and when the next one may, how many leases there are, and by which marks
-- this is the data it was. While the data settles after a loss nothing is ripe.
-- Guard: none; it only reads.
-- KEYS 1 leases
-- KEYS 2 epoch
-- KEYS 3 fence
-- KEYS 4 settling
-- KEYS* due
-- KEYS* running: in that queue
-- KEYS* queue: its settings
-- KEYS* queue_state
-- ARGV 1 now
-- ARGV* limit: how many ripe runs at most; 0 leaves the queue out
-- Reply ripe: now in microseconds, number of leases, epoch, last fence, when the data has settled or 0; then for each queue
-- {next ready or '', {id, ready, ...}, room, why it has none}, or {'wrong_type', key, found, wanted}. Room is '' for any number; a
-- queue without shows no ripe runs, and why only if it has some. Of epoch and fence '' means gone, '?' another type
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
local reply = {'ripe', micros, redis.call('ZCARD', KEYS[1]), mark(KEYS[2]), mark(KEYS[3]), settled}
for item = 1, #ARGV - 1 do
  local at = item * 4 + 1
  local due, limit = KEYS[at], tonumber(ARGV[item + 1])
  local queue_bad = wrong_type({due, 'zset', KEYS[at + 1], 'zset', KEYS[at + 2], 'hash', KEYS[at + 3], 'hash'})
  local room = not queue_bad and limit > 0 and settled == 0 and room_in(KEYS[at + 2], KEYS[at + 1], KEYS[at + 3], micros)
  if queue_bad then
    reply[#reply + 1] = queue_bad
  elseif limit == 0 then
    reply[#reply + 1] = {'', {}, '', ''}
  elseif settled > 0 then
    reply[#reply + 1] = {int(settled), {}, '', ''}
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
