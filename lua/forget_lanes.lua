#!lua flags=allow-oom
-- Removes lanes from the registry that were not used for a long time.
-- Guard: the lane was last used before the given time, and no run is due there. At most 100 lanes a
-- call.
-- Keys: lanes
-- Keys of each item: due
-- Args: before
-- Args of each item: lane
-- Reply forgotten: the number of removed lanes
-- Reply wrong_type: key, found, wanted

local forgotten = 0
for at = 1, item_count do
  local k = item(at)
  local used = redis.call('ZSCORE', k.lanes, k.lane)
  if used and tonumber(used) < tonumber(before) and redis.call('EXISTS', k.due) == 0 then
    redis.call('ZREM', k.lanes, k.lane)
    forgotten = forgotten + 1
  end
end
return {'forgotten', forgotten}
