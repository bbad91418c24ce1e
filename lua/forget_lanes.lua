#!lua flags=allow-oom
-- Removes lanes from the registry that were not used for a long time.
-- Guard: the lane was last used before the given time, and no run is due there. At most 100 lanes a
-- call.
-- KEYS 1 lanes
-- KEYS* due
-- ARGV 1 before
-- ARGV* lane
-- Reply forgotten: the number of removed lanes
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset'})
if bad then return bad end
local forgotten = 0
for at = 2, #ARGV do
  local used = redis.call('ZSCORE', KEYS[1], ARGV[at])
  if used and tonumber(used) < tonumber(ARGV[1]) and redis.call('EXISTS', KEYS[at]) == 0 then
    redis.call('ZREM', KEYS[1], ARGV[at])
    forgotten = forgotten + 1
  end
end
return {'forgotten', forgotten}
