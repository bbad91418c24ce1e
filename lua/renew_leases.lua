#!lua flags=allow-oom
-- Extends the leases of this node, and replies with the requests to stop runs.
-- Guard: each lease is still in the set under its fence.
-- Keys: leases, stop_requests
-- Args: now, lease_ms
-- Args of each item: id, fence
-- Reply renewed: now, then a word for each run: extended, lost, or
--   'stop:REASON'
-- Reply wrong_type: key, found, wanted

local lease_end = now + tonumber(lease_ms)
local reply = {'renewed', now}
for at = 1, item_count do
  local k = item(at)
  local member = k.id .. '#' .. k.fence
  if not redis.call('ZSCORE', k.leases, member) then
    reply[#reply + 1] = 'lost'
  else
    redis.call('ZADD', k.leases, 'XX', lease_end, member)
    local stop = redis.call('HGET', k.stop_requests, k.id)
    reply[#reply + 1] = stop and ('stop:' .. parse_stop_request(stop)) or 'extended'
  end
end
return reply
