#!lua flags=allow-oom
-- Records when a node first polled the data on this Redis server, and the last fence at that time.
-- A node that has seen a higher fence thus learns, at any later time, that the move to this server
-- lost data.
-- Guard: the server is not recorded yet; a repeated call changes nothing.
-- KEYS 1 known_servers
-- KEYS 2 epoch
-- KEYS 3 fence
-- ARGV 1 now
-- ARGV 2 server
-- Reply recorded
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'hash'})
if bad then return bad end
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then return {'recorded'} end
-- Reads a key that only marks the data. A wrong type must not stop the script.
local function mark(key)
  local found = redis.pcall('GET', key)
  if type(found) == 'table' then return '' end
  return found or ''
end
-- Data without an epoch is new or completely lost. No node can know more about it than Redis, so
-- runs need not be delayed for checks by other nodes.
local at = mark(KEYS[2]) == '' and 0 or now
redis.call('HSET', KEYS[1], ARGV[2], int(whole(mark(KEYS[3]), FENCE)) .. ':' .. int(at))
local known = redis.call('HGETALL', KEYS[1])
if #known > 20 then
  local oldest, oldest_at
  for field = 1, #known, 2 do
    local met_at = tonumber(string.match(known[field + 1], ':(%d+)$')) or 0
    if known[field] ~= ARGV[2] and (not oldest or met_at < oldest_at) then oldest, oldest_at = known[field], met_at end
  end
  redis.call('HDEL', KEYS[1], oldest)
end
return {'recorded'}
