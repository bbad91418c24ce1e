#!lua flags=allow-oom
-- Moves marks of times later than now back to now, in the order they have: Redis' clock was ahead when they were written. Gates are
-- looked at, nodes were seen and, where that is asked for, runs ended now. A mark of a gate that is to be looked at later is written anew when that is done.
-- Guard: everything is looked at anew; what is not later stays, and so does what has no time at all. At most 1,000 of each a call.
-- KEYS 1 gate_wakes
-- KEYS 2 nodes
-- KEYS* history
-- KEYS* dead
-- KEYS* outputs
-- KEYS* job_history
-- KEYS* job_dead
-- KEYS* job_outputs
-- ARGV 1 now
-- Reply pulled: how many
-- Reply wrong_type: key, found, wanted
local MOST = 1000
local now = clock(ARGV[1])
local types = {}
for at = 1, #KEYS do
  types[#types + 1] = KEYS[at]
  types[#types + 1] = 'zset'
end
local bad = wrong_type(types)
if bad then return bad end
local pulled = 0
for at = 1, #KEYS do
  local found = redis.call('ZRANGE', KEYS[at], '(' .. int(now), '(' .. int(PARKED), 'BYSCORE', 'LIMIT', 0, MOST)
  for place, member in ipairs(found) do redis.call('ZADD', KEYS[at], 'XX', int(now - (#found - place)), member) end
  pulled = pulled + #found
end
return {'pulled', pulled}
