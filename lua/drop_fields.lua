#!lua flags=allow-oom
-- Deletes unreadable fields of a hash.
-- Guard: each field still has the value that the caller read. At most 500 fields a call.
-- Keys: key:hash
-- Args of each item: field, seen
-- Reply dropped: the positions of the deleted fields in this call
-- Reply wrong_type: key, found, wanted

local reply = {'dropped'}
for at = 1, item_count do
  local k = item(at)
  if redis.call('HGET', k.key, k.field) == k.seen then
    redis.call('HDEL', k.key, k.field)
    reply[#reply + 1] = at
  end
end
return reply
