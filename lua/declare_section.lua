#!lua
-- Writes what a file says of a queue or a group, or that it says nothing of it any more. Refused by Redis itself when
-- memory is full: it only adds.
-- Guard: the caller's own text changed since it said it last, or what it said is gone. What was set by hand gives way to a text
-- that changed; a pause by hand does not, and settings by hand outlive the last file that said any. Repeating a call changes nothing.
-- Where the text that holds goes and other files say another, they say theirs again.
-- KEYS 1 settings: of the queue or group
-- KEYS 2 declared: what this file says
-- KEYS 3 index: of queues or groups
-- KEYS 4 nudge
-- KEYS 5 gate_wakes
-- ARGV 1 now
-- ARGV 2 name
-- ARGV 3 entry: its field among what the file says
-- ARGV 4 hash: of the file's own text, or '' if it says nothing
-- ARGV 5 source_name: of the file
-- ARGV 6 shown: what the index is to say of it; '' for nothing
-- ARGV 7 paused: 1 if the file wants it paused, else 0
-- ARGV* field: of settings
-- ARGV* value: '' for none
-- Reply declared
-- Reply unchanged
-- Reply withdrawn: nobody says anything of it any more
-- Reply kept: another file does, or it was set by hand
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local settings, declared, index = KEYS[1], KEYS[2], KEYS[3]
local bad = wrong_type({settings, 'hash', declared, 'hash', index, 'hash', KEYS[5], 'zset'})
if bad then return bad end
local name, entry, hash, own = ARGV[2], ARGV[3], ARGV[4], 'src:' .. ARGV[5]
local held = redis.call('HMGET', settings, own, 'set_at', 'paused', 'paused_in', 'source')
local function show()
  if ARGV[6] == '' then redis.call('HDEL', index, name) else redis.call('HSET', index, name, ARGV[6]) end
end

-- What waits in a group is judged anew when its settings change.
local function wake_group()
  local group = string.match(entry, '^group (.+)$')
  if not group then return end
  redis.call('ZADD', KEYS[5], 'LT', now, 'group:' .. group)
  redis.call('PUBLISH', KEYS[4], 'due')
end

if hash == '' then
  local is_kept, is_said, others = held[2] or held[3] and held[4] == 'hand', false, {}
  for _, field in ipairs(redis.call('HKEYS', settings)) do
    if string.sub(field, 1, 4) == 'src:' and field ~= own then
      is_kept = true
      others[#others + 1] = field
      is_said = is_said or redis.call('HGET', settings, field) == held[1]
    end
  end
  if is_kept then
    if held[1] and held[5] == ARGV[5] and not held[2] and not is_said then
      for _, field in ipairs(others) do redis.call('HSET', settings, field, '') end
      redis.call('PUBLISH', KEYS[4], 'files')
    end
    redis.call('HDEL', settings, own)
  else
    redis.call('DEL', settings)
    show()
    redis.call('PUBLISH', KEYS[4], 'pools')
    wake_group()
  end
  redis.call('HDEL', declared, entry)
  return {is_kept and 'kept' or 'withdrawn'}
end

if held[1] == hash and redis.call('HGET', declared, entry) == hash then return {'unchanged'} end
redis.call('HDEL', settings, 'set_at', 'set_by', 'concurrency_by')
for at = 8, #ARGV, 2 do
  if ARGV[at + 1] == '' then
    redis.call('HDEL', settings, ARGV[at])
  else
    redis.call('HSET', settings, ARGV[at], ARGV[at + 1])
  end
end
if ARGV[7] == '1' then
  if not held[3] then redis.call('HSET', settings, 'paused', int(now), 'paused_in', 'file', 'paused_by', 'file of ' .. ARGV[5]) end
elseif held[3] and held[4] ~= 'hand' then
  redis.call('HDEL', settings, 'paused', 'paused_in', 'paused_by')
end
redis.call('HSET', settings, own, hash, 'source', ARGV[5])
show()
redis.call('HSET', declared, entry, hash)
redis.call('PUBLISH', KEYS[4], 'pools')
wake_group()
return {'declared'}
