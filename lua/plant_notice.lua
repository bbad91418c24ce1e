#!lua
-- Plans the run that delivers a notice. The run belongs to a hidden job, which this call defines or
-- updates. The hidden job counts as ended, so that it has no runs but notices.
-- If `most` notices of that job are open, the notice is only counted. The next planned notice
-- reports the count, or a `rest` notice that waits until no notice of the job is open.
-- Redis itself refuses this script when memory is full; the notice then stays in the list.
-- Guard: the notice is still in the list. A repeated call with the same id replies `obsolete`.
-- Keys: notices, job (the hidden job), run, due, manual (the open notices of the hidden job),
--   finished, counters, nudge, subject_job (the job whose run the notice is about)
-- Args: now, notice (the notice's member in the list), id, job_name, due_ms, definition (of the
--   hidden job, or '' if the job no longer asks for this notice), tz, lane, most (how many notices
--   of the job may be open), about (the run the notice is about), rest (1 for a notice that only
--   reports how many were suppressed)
-- Reply planted
-- Reply obsolete: the notice was planned before, or another notice reported the count
-- Reply suppressed: the notice was only counted
-- Reply waits: the notice is a `rest` notice, and another notice is open
-- Reply dropped: the job no longer asks for this notice
-- Reply gone: another node did this first
-- Reply wrong_type: key, found, wanted

local kind = string.match(job_name, '[^/]*$')
if not redis.call('ZSCORE', k.notices, notice) then return {'gone'} end
local function done(word)
  redis.call('ZREM', k.notices, notice)
  return {word}
end
if definition == '' then return done('dropped') end
if redis.call('EXISTS', k.run) == 1 then return done('obsolete') end
local suppressed = whole(redis.call('HGET', k.subject_job, 'suppressed:' .. kind), COUNT)
if rest == '1' then
  if suppressed == 0 then return done('obsolete') end
  if redis.call('ZCARD', k.manual) > 0 then return {'waits'} end
elseif redis.call('ZCARD', k.manual) >= tonumber(most) then
  suppress({notices = k.notices, job = k.subject_job, counters = k.counters, nudge = k.nudge}, kind, about, now)
  return done('suppressed')
end
local rev = redis.call('HGET', k.job, 'rev')
if not rev or read_definition(k.job) ~= definition then
  local next_rev = int(math.max(whole(rev, FENCE - 1) + 1, micros))
  if rev then set_rev(k.job, rev, next_rev) end
  redis.call('HSET', k.job, 'rev', next_rev, 'source', 'notices', 'token', '', 'queue', lane,
    'once', '0', 'tz', tz, 'anchor', int(now), 'since', int(now), 'pending', '')
  set_definition(k.job, definition)
end
redis.call('HSET', k.job, 'ended', 'finished', 'ended_at', int(now))
redis.call('ZADD', k.finished, now, job_name)
redis.call('HSET', k.run, 'job', job_name, 'due', due_ms, 'queue', lane, 'kind', 'manual', 'state', 'scheduled', 'planted_at', int(now),
  'about', notice, 'suppressed', int(suppressed))
redis.call('HDEL', k.subject_job, 'suppressed:' .. kind)
redis.call('ZADD', k.manual, due_ms, id)
redis.call('ZADD', k.due, now, id)
nudge_if_head(k.nudge, k.due, id)
return done('planted')
