#!lua flags=allow-oom
-- Records that lanes are in use, so that nodes poll them, and wakes the nodes if a lane is new.
-- Guard: none; a lane recorded twice is stored once.
-- KEYS 1 lanes
-- KEYS 2 nudge
-- ARGV 1 now
-- ARGV* lane: never the plain lane of a queue
-- Reply noted
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'zset'})
if bad then return bad end
for at = 2, #ARGV do note_lane(KEYS[1], KEYS[2], ARGV[at], now) end
return {'noted'}
