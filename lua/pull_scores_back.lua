#!lua flags=allow-oom
-- Moves scores later than now back to now, in their order: Redis' clock was ahead when they were
-- written.
-- Gates are then visited now, nodes were seen now, and runs ended now (if the caller gives those
-- keys).
-- A gate that has to be visited later gets its time again by the visit.
-- Guard: the script checks everything anew. Scores up to now stay, and so does PARKED, which is no
-- time.
-- At most 1,000 of each set a call.
-- KEYS 1 gate_timers
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
