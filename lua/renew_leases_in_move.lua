#!lua flags=allow-oom
-- Extends the leases of this node while the slot of the namespace moves to another node of a cluster.
-- Meanwhile a script may have one key only, so this script does not read requests to stop runs.
-- Guard: each lease is still in the set under its fence.
-- Keys: leases
-- Args: now, lease_ms
-- Args of each item: id, fence
-- Reply renewed: now, then a word for each run: extended or lost
-- Reply wrong_type: key, found, wanted

local lease_end = now + tonumber(lease_ms)
local reply = {'renewed', now}
for at = 1, item_count do
  local k = item(at)
  local member = k.id .. '#' .. k.fence
  local is_held = redis.call('ZSCORE', k.leases, member)
  if is_held then redis.call('ZADD', k.leases, 'XX', lease_end, member) end
  reply[#reply + 1] = is_held and 'extended' or 'lost'
end
return reply
