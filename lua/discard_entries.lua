#!lua flags=allow-oom
-- Discards entries of quarantine for good, a key that was moved aside with its entry, and notes whose wish it was: a person's, never
-- schedd's own. Of the notes the newest 200 are kept.
-- Guard: an entry is still what was read. One this wish has discarded before is discarded. At most 100 a call.
-- KEYS 1 quarantine
-- KEYS 2 discarded
-- KEYS 3 totals
-- KEYS* aside: where the key is, or the quarantine for what was no key
-- ARGV 1 now
-- ARGV 2 dropped: how many found no room, as read, so that they are told no more; or ''
-- ARGV* field: the entry's name
-- ARGV* entry: as read
-- ARGV* note: what is discarded and by whom, JSON, another for each wish
-- Reply discarded: which of them, by their places, the first is 1
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
