#!lua flags=allow-oom
-- Extends the leases of this node, and replies with the requests to stop runs.
-- Guard: each lease is still in the set under its fence.
-- KEYS 1 leases
-- KEYS 2 stop_requests
-- ARGV 1 now
-- ARGV 2 lease_ms
-- ARGV* id
-- ARGV* fence
-- Reply renewed: now, then a word for each run: extended, lost, or
--   'stop:REASON'
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'hash'})
if bad then return bad end
local lease_end = now + tonumber(ARGV[2])
local reply = {'renewed', now}
for at = 3, #ARGV, 2 do
  local member = ARGV[at] .. '#' .. ARGV[at + 1]
  if not redis.call('ZSCORE', KEYS[1], member) then
    reply[#reply + 1] = 'lost'
  else
    redis.call('ZADD', KEYS[1], 'XX', lease_end, member)
    local stop = redis.call('HGET', KEYS[2], ARGV[at])
    reply[#reply + 1] = stop and ('stop:' .. parse_stop_request(stop)) or 'extended'
  end
end
return reply
