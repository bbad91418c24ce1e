#!lua flags=allow-oom
-- Checks unique keys: deletes a key without an owner, and plans the next check of an owned key.
-- A key taken in the future, because Redis' clock was ahead, counts as taken now.
-- Guard: the owner is the job that the caller read.
-- A key is deleted if its owner's record is gone or names another key, or if the key's time is
-- over. At most 100 keys a call.
-- KEYS 1 uniques
-- KEYS 2 jobs
-- KEYS* unique
-- KEYS* holder: the job that owns the key, as the caller read it; any key if the owner is
--   unreadable
-- ARGV 1 now
-- ARGV* unique_key
-- ARGV* holder_name: as the caller read it, or ''
-- Reply forgotten: the number of deleted keys
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'zset'})
if bad then return bad end
-- The next check of an owned key comes after as long as the job has owned the key, within these
-- bounds (ms).
local SOON, LATE = 60000, 600000
local forgotten = 0
for at = 2, #ARGV, 2 do
  local key, name, unique, job = ARGV[at], ARGV[at + 1], KEYS[at + 1], KEYS[at + 2]
  if wrong_type({unique, 'hash', job, 'hash'}) then
    -- The doctor reports the wrong type; it must not block the checks of other keys.
    redis.call('ZADD', KEYS[1], now + LATE, key)
  else
    local lock = redis.call('HMGET', unique, 'job', 'until', 'since')
    local holder = redis.call('HMGET', job, 'rev', 'ended', 'unique')
    local look = nil
    local ahead = whole(lock[3], FENCE) - now
    if ahead > 0 then
      redis.call('HSET', unique, 'since', int(now))
      if lock[2] then
        lock[2] = int(whole(lock[2], FENCE) - ahead)
        redis.call('HSET', unique, 'until', lock[2])
      end
    end
    if lock[1] and lock[1] ~= name then
      look = now
    elseif lock[1] and lock[2] then
      local ends = whole(lock[2], FENCE)
      if now < ends then look = ends end
    elseif lock[1] and holder[1] and not holder[2] and holder[3] == key then
      -- The job does not end before its next due time, unless a user ends it.
      local due = tonumber(redis.call('ZSCORE', KEYS[2], name) or '') or PARKED
      look = now + math.min(math.max(now - whole(lock[3], FENCE), SOON), LATE)
      if due < PARKED then look = math.max(look, due) end
    end
    if look then
      redis.call('ZADD', KEYS[1], look, key)
    else
      redis.call('DEL', unique)
      redis.call('ZREM', KEYS[1], key)
      forgotten = forgotten + 1
    end
  end
end
return {'forgotten', forgotten}
