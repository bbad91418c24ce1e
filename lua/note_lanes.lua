#!lua flags=allow-oom
-- Records that lanes are in use, so that nodes poll them, and wakes the nodes if a lane is new.
-- Guard: none; a lane recorded twice is stored once.
-- Keys: lanes, nudge
-- Args: now
-- Args of each item: lane (never the plain lane of a queue)
-- Reply noted
-- Reply wrong_type: key, found, wanted

for at = 1, item_count do note_lane(k.lanes, k.nudge, item(at).lane, now) end
return {'noted'}
