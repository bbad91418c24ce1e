#!lua flags=allow-oom
-- Repairs the links of one job to its parents to match its definition, and deletes occurrences that
-- no longer wait for parents.
-- Guard: the job is at the revision that the caller read. An occurrence is deleted only if the job
-- has no parents, or the child's run has a record. At most 500 occurrences a call.
-- Keys: chains, chain (of the job), job
-- Keys of each item: run (of the job, for this occurrence)
-- Args: job_name, rev (as the caller read it, or ''), after (the rule and the parents that the job
--   should have, or ''), listed (the parents that the index has for the job, as the caller read it)
-- Args of each item: occurrence
-- Reply repaired: a text for each repair
-- Reply sound: the data was correct
-- Reply stale: the job changed; the caller must read the job again
-- Reply wrong_type: key, found, wanted

if (redis.call('HGET', k.job, 'rev') or '') ~= rev then return {'stale'} end
local reply, wanted = {'repaired'}, {}
local function note(word) reply[#reply + 1] = word end
for parent in string.gmatch(string.match(after, ' .*$') or '', '%S+') do
  wanted[parent] = true
  if redis.call('ZADD', k.chains, 0, parent .. ' ' .. job_name) == 1 then note('added to the children of ' .. parent) end
end
for parent in string.gmatch(listed, '%S+') do
  if not wanted[parent] and redis.call('ZREM', k.chains, parent .. ' ' .. job_name) == 1 then note('removed from the children of ' .. parent) end
end
if rev ~= '' and (redis.call('HGET', k.job, 'after') or '') ~= after then
  if after == '' then redis.call('HDEL', k.job, 'after') else redis.call('HSET', k.job, 'after', after) end
  note('parents in the record of the job corrected')
end
local deleted = 0
for at = 1, item_count do
  local k = item(at)
  if after == '' or redis.call('EXISTS', k.run) == 1 then deleted = deleted + redis.call('HDEL', k.chain, k.occurrence) end
end
if deleted > 0 then note('occurrences that no longer wait for parents removed: ' .. deleted) end
if not reply[2] then return {'sound'} end
return reply
