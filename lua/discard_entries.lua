#!lua flags=allow-oom
-- Deletes entries of the quarantine, with their quarantined keys, and records the operator who
-- asked for it. The newest 200 records are kept.
-- Guard: an entry is as the caller read it. An entry that an earlier call for the same note deleted
-- counts as deleted.
-- At most 100 entries a call.
-- KEYS 1 quarantine
-- KEYS 2 discarded
-- KEYS 3 counters
-- KEYS* aside: the quarantined key, or the quarantine for an entry without a key
-- ARGV 1 now
-- ARGV 2 dropped: the number of entries that found no room, as the caller read it, to be cleared;
--   or ''
-- ARGV* field: the entry's name
-- ARGV* entry: as the caller read it
-- ARGV* note: the record of the deletion as JSON, unique for each request
-- Reply discarded: the positions of the discarded entries; the first is 1
-- Reply wrong_type: key, found, wanted
local NOTES = 200
local now, dropped = clock(ARGV[1]), ARGV[2]
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'zset', KEYS[3], 'hash'})
if bad then return bad end
local reply = {'discarded'}
for place = 1, #KEYS - 3 do
  local field, entry, note = ARGV[3 * place], ARGV[3 * place + 1], ARGV[3 * place + 2]
  if redis.call('HGET', KEYS[1], field) == entry then
    redis.call('ZADD', KEYS[2], now, note)
    if KEYS[place + 3] ~= KEYS[1] then redis.call('UNLINK', KEYS[place + 3]) end
    redis.call('HDEL', KEYS[1], field)
    reply[#reply + 1] = place
  elseif redis.call('ZSCORE', KEYS[2], note) then
    reply[#reply + 1] = place
  end
end
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -NOTES - 1)
if dropped ~= '' and redis.call('HGET', KEYS[3], 'quarantine_dropped') == dropped then
  redis.call('HDEL', KEYS[3], 'quarantine_dropped')
end
return reply
