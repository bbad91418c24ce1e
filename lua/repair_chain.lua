#!lua flags=allow-oom
-- Repairs the links of one job to its parents to match its definition, and deletes occurrences that
-- no longer wait for parents. An occurrence that waits in vain gets the ends that it lacks.
-- Guard: the job is at the revision that the caller read. An occurrence is deleted only if the job
-- has no record, or the child's run has one. It gets an end only while it waits. At most 500 items a
-- call.
-- Keys: chains, chain (of the job), job, chain_ends, nudge
-- Keys of each item: run (of the job, for this occurrence)
-- Args: now, job_name, rev (as the caller read it, or ''), after (the rule and the parents that the job
--   should have, or ''), listed (the parents that the index has for the job, as the caller read it)
-- Args of each item: occurrence, entry (the end to give to the occurrence, or '' to delete it)
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
local deleted, given = 0, 0
for at = 1, item_count do
  local k = item(at)
  local has_run = redis.call('EXISTS', k.run) == 1
  if k.entry ~= '' then
    local waits = not has_run and redis.call('HEXISTS', k.chain, k.occurrence) == 1
    given = given + (waits and redis.call('ZADD', k.chain_ends, now, k.entry) or 0)
  elseif rev == '' or has_run then
    deleted = deleted + redis.call('HDEL', k.chain, k.occurrence)
  end
end
if given > 0 then
  wake_nodes(k.nudge, 'chains')
  note('ends of parents given to occurrences that waited in vain: ' .. given)
end
if deleted > 0 then note('occurrences that no longer wait for parents removed: ' .. deleted) end
if not reply[2] then return {'sound'} end
return reply
