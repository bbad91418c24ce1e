#!lua flags=allow-oom
-- Sets scores later than now to now, in their order, because they were written while Redis' clock
-- was ahead. The gates are then checked now, the nodes were seen now, and the runs ended now (if
-- the caller gives those keys). A gate that has to be checked later gets its time again by that
-- check.
-- Guard: the script checks everything again. Scores up to now stay, and so does PARKED, which is
-- not a time. At most 1,000 members of each set a call.
-- Keys: gate_timers, nodes
-- Keys of each item: history, dead, outputs, job_history, job_dead, job_outputs
-- Args: now
-- Reply pulled: the number of changed scores
-- Reply wrong_type: key, found, wanted

local MOST = 1000
for at = 1, #KEYS do
  local bad = wrong_type({KEYS[at], 'zset'})
  if bad then return bad end
end
local pulled = 0
for at = 1, #KEYS do
  local found = redis.call('ZRANGE', KEYS[at], '(' .. int(now), '(' .. int(PARKED), 'BYSCORE', 'LIMIT', 0, MOST)
  for place, member in ipairs(found) do redis.call('ZADD', KEYS[at], 'XX', int(now - (#found - place)), member) end
  pulled = pulled + #found
end
return {'pulled', pulled}
