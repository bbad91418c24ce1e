#!lua flags=allow-oom
-- Records when a node first polled the data on this Redis server, and the last fence at that time.
-- A node that has seen a higher fence thus learns, at any later time, that the move to this server
-- lost data.
-- Guard: the server is not recorded yet; a repeated call changes nothing.
-- Keys: known_servers, epoch:any, fence:any
-- Args: now, server
-- Reply recorded
-- Reply wrong_type: key, found, wanted

if redis.call('HEXISTS', k.known_servers, server) == 1 then return {'recorded'} end
-- Reads a key that only marks the data. A wrong type must not stop the script.
local function mark(key)
  local found = redis.pcall('GET', key)
  if type(found) == 'table' then return '' end
  return found or ''
end
-- Data without an epoch is new or completely lost. No node can know more about it than Redis, so
-- runs need not be delayed for checks by other nodes.
local at = mark(k.epoch) == '' and 0 or now
redis.call('HSET', k.known_servers, server, int(whole(mark(k.fence), FENCE)) .. ':' .. int(at))
local known = redis.call('HGETALL', k.known_servers)
if #known > 20 then
  local oldest, oldest_at
  for field = 1, #known, 2 do
    local met_at = tonumber(string.match(known[field + 1], ':(%d+)$')) or 0
    if known[field] ~= server and (not oldest or met_at < oldest_at) then oldest, oldest_at = known[field], met_at end
  end
  redis.call('HDEL', k.known_servers, oldest)
end
return {'recorded'}
