#!lua flags=allow-oom
-- Checks unique keys: deletes a key without an owner, and plans the next check of an owned key.
-- A key taken in the future, because Redis' clock was ahead, counts as taken now.
-- Guard: the owner is the job that the caller read.
-- A key is deleted if its owner's record is gone or names another key, or if the key's time is
-- over. At most 100 keys a call.
-- Keys: uniques, jobs
-- Keys of each item: unique, holder:hash (the job that owns the key, as the caller read it; any key
--   if the owner is unreadable)
-- Args: now
-- Args of each item: unique_key, holder_name (as the caller read it, or '')
-- Reply forgotten: the number of deleted keys
-- Reply wrong_type: key, found, wanted

-- The next check of an owned key comes after as long as the job has owned the key, within these
-- bounds (ms).
local SOON, LATE = 60000, 600000
local forgotten = 0
for at = 1, item_count do
  local k = item(at)
  local key, name, unique, job = k.unique_key, k.holder_name, k.unique, k.holder
  if wrong_type({unique, 'hash', job, 'hash'}) then
    -- The doctor reports the wrong type; it must not block the checks of other keys.
    redis.call('ZADD', k.uniques, now + LATE, key)
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
      local due = tonumber(redis.call('ZSCORE', k.jobs, name) or '') or PARKED
      look = now + math.min(math.max(now - whole(lock[3], FENCE), SOON), LATE)
      if due < PARKED then look = math.max(look, due) end
    end
    if look then
      redis.call('ZADD', k.uniques, look, key)
    else
      redis.call('DEL', unique)
      redis.call('ZREM', k.uniques, key)
      forgotten = forgotten + 1
    end
  end
end
return {'forgotten', forgotten}
