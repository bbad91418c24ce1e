#!lua flags=allow-oom
-- Deletes unreadable fields of a hash.
-- Guard: each field still has the value that the caller read. At most 500 fields a call.
-- KEYS 1 key
-- ARGV* field
-- ARGV* seen
-- Reply dropped: the positions of the deleted fields in this call
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'hash'})
if bad then return bad end
local reply = {'dropped'}
for at = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[at]) == ARGV[at + 1] then
    redis.call('HDEL', KEYS[1], ARGV[at])
    reply[#reply + 1] = (at + 1) / 2
  end
end
return reply
