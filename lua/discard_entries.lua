#!lua flags=allow-oom
-- Deletes entries of the quarantine, with their quarantined keys, and records the operator who
-- asked for it. The newest 200 records are kept.
-- Guard: an entry is as the caller read it. An entry that an earlier call for the same note deleted
-- counts as deleted.
-- At most 100 entries a call.
-- Keys: quarantine, discarded, counters
-- Keys of each item: aside:any (the quarantined key, or the quarantine for an entry without a key)
-- Args: now, dropped (the number of entries that found no room, as the caller read it, to be
--   cleared; or '')
-- Args of each item: field (the entry's name), entry (as the caller read it), note (the record of
--   the deletion as JSON, unique for each request)
-- Reply discarded: the positions of the discarded entries; the first is 1
-- Reply wrong_type: key, found, wanted

local NOTES = 200
local reply = {'discarded'}
for place = 1, item_count do
  local k = item(place)
  if redis.call('HGET', k.quarantine, k.field) == k.entry then
    redis.call('ZADD', k.discarded, now, k.note)
    if k.aside ~= k.quarantine then redis.call('UNLINK', k.aside) end
    redis.call('HDEL', k.quarantine, k.field)
    reply[#reply + 1] = place
  elseif redis.call('ZSCORE', k.discarded, k.note) then
    reply[#reply + 1] = place
  end
end
redis.call('ZREMRANGEBYRANK', k.discarded, 0, -NOTES - 1)
if dropped ~= '' and redis.call('HGET', k.counters, 'quarantine_dropped') == dropped then
  redis.call('HDEL', k.counters, 'quarantine_dropped')
end
return reply
