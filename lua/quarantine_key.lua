#!lua flags=allow-oom
-- Moves a key that has a wrong type or cannot be read to quarantine. The name of a job is also
-- removed from the lists of its files, so that the files define the job again.
-- Guard: the key exists, and its name in quarantine is free. At most 10,000 entries are kept; when
-- the quarantine is full, the key stays.
-- Keys: key:any, aside:any, quarantine:any (it may be the key itself)
-- Keys of each item: source (a list from which the name is removed)
-- Args: now, field (the entry's name), why, job_name (the job to remove from the lists, or '')
-- Reply quarantined
-- Reply gone
-- Reply taken: the name in quarantine is in use
-- Reply full
-- Reply wrong_type: key, found, wanted

if k.key ~= k.quarantine then
  local bad = wrong_type({k.quarantine, 'hash'})
  if bad then return bad end
  if redis.call('HLEN', k.quarantine) >= QUARANTINE then return {'full'} end
end
local kind = redis.call('TYPE', k.key).ok
if kind == 'none' then return {'gone'} end
if redis.call('EXISTS', k.aside) == 1 then return {'taken'} end
redis.call('RENAME', k.key, k.aside)
redis.call('HSET', k.quarantine, field, cjson.encode({key = k.key, aside = k.aside, kind = kind, why = why, at = int(now)}))
for at = 1, item_count do
  local source = item(at).source
  if redis.call('TYPE', source).ok == 'hash' then redis.call('HDEL', source, job_name) end
end
return {'quarantined'}
