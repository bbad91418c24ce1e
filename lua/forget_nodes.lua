#!lua flags=allow-oom
-- Deletes nodes that were not seen for a long time and whose files declare nothing.
-- Guard: the node was last seen before the given time, and its file lists no job, queue or group.
-- At most 100 nodes a call.
-- KEYS 1 nodes
-- KEYS* node
-- KEYS* source
-- KEYS* declared
-- ARGV 1 before
-- ARGV* node_name
-- Reply forgotten: the number of deleted nodes
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset'})
if bad then return bad end
local forgotten = 0
for at = 1, #ARGV - 1 do
  local seen = redis.call('ZSCORE', KEYS[1], ARGV[at + 1])
  if seen and tonumber(seen) < tonumber(ARGV[1]) and redis.call('EXISTS', KEYS[at * 3], KEYS[at * 3 + 1]) == 0 then
    if redis.call('TYPE', KEYS[at * 3 - 1]).ok == 'hash' then redis.call('DEL', KEYS[at * 3 - 1]) end
    redis.call('ZREM', KEYS[1], ARGV[at + 1])
    forgotten = forgotten + 1
  end
end
return {'forgotten', forgotten}
