#!lua flags=no-writes,allow-oom
-- Tells for each queue which runs may be claimed now and when the next one may, and how many leases there are.
-- Guard: none; it only reads.
-- KEYS 1 leases
-- KEYS* due
-- ARGV 1 now
-- ARGV* limit: how many ripe runs at most; 0 leaves the queue out
-- Reply ripe: now in microseconds, number of leases, then for each queue {next ready or '', {id, ready, ...}}, or {'wrong_type', found}
-- Reply wrong_type
local now, micros = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'zset'})
if bad then return bad end
local reply = {'ripe', micros, redis.call('ZCARD', KEYS[1])}
for at = 2, #KEYS do
  local due, limit = KEYS[at], tonumber(ARGV[at])
  local queue_bad = wrong_type({due, 'zset'})
  if queue_bad then
    reply[#reply + 1] = {'wrong_type', queue_bad[3]}
  elseif limit == 0 then
    reply[#reply + 1] = {'', {}}
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
