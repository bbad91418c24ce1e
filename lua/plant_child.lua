#!lua flags=allow-oom
-- Gives the end of a parent's run to one child. When all parents have ended for this occurrence,
-- the child's run becomes ready, or ends as skipped with the reason `parent`.
-- The rule and the parents are those of the time at which the occurrence began, however the child
-- was edited since then. The run of a child that was removed ends as cancelled instead of starting.
-- A skipped range of the parents becomes one skipped range of the child, or one run.
-- A child that was skipped because of a parent runs after all if that parent is retried and lets it
-- run.
-- Guard: the entry is in `chain_ends`, and the child is in the lane that the caller read. An end
-- after a retry plans no run whose record is gone, because that run was decided before.
-- A repeated call replies `gone`, because the entry is removed in the same step.
-- Keys: chain_ends, chains, chain (of the child), job (the child), run (of the child), job_due,
--   catch_up, manual, history, job_history, counters, nudge, deadlines
-- Args: now, entry (the member of `chain_ends`), id (of the child's run), job_name, due_ms, lane
--   (of the child, as the caller read it), most (how many occurrences may wait for parents)
-- Reply planted
-- Reply skipped: also for a run that ended as cancelled
-- Reply awaits: the number of parents that have not ended
-- Reply known: the child's run was decided before, and this end does not change it
-- Reply unrelated: the child has no record, or did not have this parent when the occurrence began
-- Reply full: too many occurrences of the child wait for parents; the entry stays
-- Reply gone: another node did this first
-- Reply stale: the child's lane changed
-- Reply wrong_type: key, found, wanted

if not redis.call('ZSCORE', k.chain_ends, entry) then return {'gone'} end
local function done(...)
  redis.call('ZREM', k.chain_ends, entry)
  return {...}
end

-- Returns the value of a JSON object; an empty table for a text that is none.
local function object(text)
  local is_read, value = pcall(cjson.decode, text or '')
  return is_read and type(value) == 'table' and value or {}
end

local ended = object(entry)
local parent = string.match(tostring(ended.run), '^[^@]*')
local occurrence = string.match(id, '@(.*)$')
local job = redis.call('HMGET', k.job, 'rev', 'ended', 'after', 'queue', 'notify', 'former_after', 'pending')
local run = redis.call('HMGET', k.run, 'state', 'reason', 'parents', 'skipped_count', 'chain_since')
local was_skipped = run[1] == 'skipped' and run[2] == 'parent' and not run[4]
local known = redis.call('HGET', k.chain, occurrence)
local state = object(known)
local since = was_skipped and run[5] or ended.since
since = since and whole(since, PARKED) or now
local after = type(state.after) == 'string' and state.after or parents_at(job[3], job[6], since, now)

local rule, listed = string.match(after, '^(%S+) (.+)$')
local parents, is_parent = {}, false
for name in string.gmatch(listed or '', '%S+') do
  parents[#parents + 1] = name
  is_parent = is_parent or name == parent
end
if not job[1] or not is_parent then return done('unrelated') end
if job[4] ~= lane then return {'stale'} end
-- The child may have got a schedule of its own, which planned a run for the same time.
if run[1] and not was_skipped or job[7] == id then return done('known') end

-- The ends of the parents for this occurrence, by the names of the parents.
local ends = {}
if was_skipped then
  for _, one in ipairs(object(run[3])) do ends[tostring(one.job)] = one end
elseif known then
  ends = type(state.ends) == 'table' and state.ends or {}
elseif ended.again then
  return done('known')
elseif redis.call('HLEN', k.chain) >= tonumber(most) then
  return {'full'}
end
ends[parent] = {job = parent, run_id = ended.run, state = ended.state, reason = ended.reason, exit_code = ended.exit_code,
  to = ended.skipped_to, count = ended.skipped_count}

local list, awaited, succeeded, failed, to, count = {}, 0, 0, 0, nil, 1
for _, name in ipairs(parents) do
  local one = ends[name]
  if one then
    list[#list + 1] = one
    if one.state == 'succeeded' then succeeded = succeeded + 1 end
    if DEAD[one.state] then failed = failed + 1 end
    if whole(one.count, FENCE) > count then to, count = one.to, whole(one.count, FENCE) end
  else
    awaited = awaited + 1
  end
end
if awaited > 0 then
  redis.call('HSET', k.chain, occurrence, cjson.encode({at = int(since), after = after, ends = ends}))
  return done('awaits', awaited)
end

local may_run = rule == 'after_finished' or rule == 'after' and succeeded == #parents or rule == 'after_any' and succeeded > 0
  or rule == 'after_failed' and failed > 0
local is_removed = job[2] and job[2] ~= 'finished'
local facts = {'job', job_name, 'due', due_ms, 'queue', lane, 'kind', is_manual(id) and 'manual' or 'regular', 'rev', job[1],
  'parents', cjson.encode(list), 'chain_since', int(since)}
if was_skipped and (not may_run or is_removed) then
  redis.call('HSET', k.run, 'parents', cjson.encode(list))
  return done('known')
end
if not may_run or is_removed then
  if not may_run and count > 1 then
    facts[#facts + 1], facts[#facts + 2], facts[#facts + 3], facts[#facts + 4] = 'skipped_to', to, 'skipped_count', int(count)
    note_range_change(k.job, to)
    add_to_counter(k.counters, 'skipped', count - 1)
  end
  -- The parents must be in the record when the end of this run is given to its own children.
  redis.call('HSET', k.run, unpack(facts))
  end_run(k, id, may_run and 'cancelled' or 'skipped', may_run and 'job removed' or 'parent', now, {})
  redis.call('HDEL', k.chain, occurrence)
  return done('skipped')
end
if was_skipped then
  redis.call('DEL', k.run)
  redis.call('ZREM', k.history, id)
  redis.call('ZREM', k.job_history, id)
  add_to_counter(k.counters, 'skipped', -1)
  facts[#facts + 1], facts[#facts + 2] = 'planted_again', int(now)
end
-- The parents may have ended before the due time, because an operator cancelled a planned run.
local ready = math.max(now, tonumber(due_ms))
redis.call('ZADD', k.job_due, ready, id)
if is_manual(id) then redis.call('ZADD', k.manual, due_ms, id) else redis.call('ZADD', k.catch_up, ready, id) end
redis.call('HSET', k.run, 'state', 'scheduled', 'ready', int(ready), 'reason', '', 'planted_at', int(now), unpack(facts))
if not is_manual(id) then watch(k.deadlines, k.nudge, id, due_ms, job[5], false) end
redis.call('HDEL', k.chain, occurrence)
nudge_if_head(k.nudge, k.job_due, id)
return done('planted')
