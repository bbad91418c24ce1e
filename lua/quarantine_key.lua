#!lua flags=allow-oom
-- Moves a key that has a wrong type or cannot be read to quarantine. The name of a job is also
-- removed from the lists of its files, so that the files define the job again.
-- Guard: the key exists, and its name in quarantine is free. At most 10,000 entries are kept; when
-- the quarantine is full, the key stays.
-- KEYS 1 key
-- KEYS 2 aside
-- KEYS 3 quarantine: it may be the key itself
-- KEYS* source: a list from which the name is removed
-- ARGV 1 now
-- ARGV 2 field: the entry's name
-- ARGV 3 why
-- ARGV 4 job_name: the job to remove from the lists, or ''
-- Reply quarantined
-- Reply gone
-- Reply taken: the name in quarantine is in use
-- Reply full
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
if KEYS[1] ~= KEYS[3] then
  local bad = wrong_type({KEYS[3], 'hash'})
  if bad then return bad end
  if redis.call('HLEN', KEYS[3]) >= QUARANTINE then return {'full'} end
end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then return {'gone'} end
if redis.call('EXISTS', KEYS[2]) == 1 then return {'taken'} end
redis.call('RENAME', KEYS[1], KEYS[2])
redis.call('HSET', KEYS[3], ARGV[2], cjson.encode({key = KEYS[1], aside = KEYS[2], kind = kind, why = ARGV[3], at = int(now)}))
for at = 4, #KEYS do
  if redis.call('TYPE', KEYS[at]).ok == 'hash' then redis.call('HDEL', KEYS[at], ARGV[4]) end
end
return {'quarantined'}
