#!lua flags=no-writes,allow-oom
-- Tells for each queue which runs may be claimed now and when the next one may, how many leases there are, and by which marks
-- this is the data it was. While the data settles after a loss nothing is ripe.
-- Guard: none; it only reads.
-- KEYS 1 leases
-- KEYS 2 epoch
-- KEYS 3 fence
-- KEYS 4 settling
-- KEYS* due
-- ARGV 1 now
-- ARGV* limit: how many ripe runs at most; 0 leaves the queue out
-- Reply ripe: now in microseconds, number of leases, epoch, last fence, when the data has settled or 0; then for each queue
-- {next ready or '', {id, ready, ...}}, or {'wrong_type', found}. Of epoch and fence '' means gone, '?' another type
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
for at = 5, #KEYS do
  local due, limit = KEYS[at], tonumber(ARGV[at - 3])
  local queue_bad = wrong_type({due, 'zset'})
  if queue_bad then
    reply[#reply + 1] = {'wrong_type', queue_bad[3]}
  elseif limit == 0 then
    reply[#reply + 1] = {'', {}}
  elseif settled > 0 then
    reply[#reply + 1] = {int(settled), {}}
  else
    local ripe = redis.call('ZRANGE', due, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
    -- Past every instant a run may have: shown so that the caller can quarantine it; it would hide here for ever.
    local beyond = redis.call('ZRANGE', due, PARKED, '+inf', 'BYSCORE', 'LIMIT', 0, 10, 'WITHSCORES')
    for _, item in ipairs(beyond) do ripe[#ripe + 1] = item end
    local head = redis.call('ZRANGE', due, '(' .. int(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    reply[#reply + 1] = {head[2] or '', ripe}
  end
end
return reply
