#!lua
-- Plans the run that delivers a notice. The run belongs to a hidden job, which this call defines or
-- updates. The hidden job counts as ended, so that it has no runs but notices.
-- If `most` notices of that job are open, the notice is only counted. The next planned notice
-- reports the count, or a `rest` notice that waits until no notice of the job is open.
-- Redis itself refuses this script when memory is full; the notice then stays in the list.
-- Guard: the notice is still in the list. A repeated call with the same id replies `obsolete`.
-- KEYS 1 notices
-- KEYS 2 job: the hidden job
-- KEYS 3 run
-- KEYS 4 due
-- KEYS 5 manual: the open notices of the hidden job
-- KEYS 6 finished
-- KEYS 7 counters
-- KEYS 8 nudge
-- KEYS 9 subject_job: the job whose run the notice is about
-- ARGV 1 now
-- ARGV 2 notice: the notice's member in the list
-- ARGV 3 id
-- ARGV 4 job_name
-- ARGV 5 due_ms
-- ARGV 6 definition: of the hidden job, or '' if the job no longer asks for this notice
-- ARGV 7 tz
-- ARGV 8 lane
-- ARGV 9 most: how many notices of the job may be open
-- ARGV 10 about: the run the notice is about
-- ARGV 11 rest: 1 for a notice that only reports how many were suppressed
-- Reply planted
-- Reply obsolete: the notice was planned before, or another notice reported the count
-- Reply suppressed: the notice was only counted
-- Reply waits: the notice is a `rest` notice, and another notice is open
-- Reply dropped: the job no longer asks for this notice
-- Reply gone: another node did this first
-- Reply wrong_type: key, found, wanted
local now, micros = clock(ARGV[1])
local k = {notices = KEYS[1], job = KEYS[2], run = KEYS[3], due = KEYS[4], manual = KEYS[5],
  subject_job = KEYS[9], nudge = KEYS[8]}
local bad = wrong_type({k.notices, 'zset', k.job, 'hash', k.run, 'hash', k.due, 'zset', k.manual, 'zset', KEYS[6], 'zset', KEYS[7], 'hash',
  k.subject_job, 'hash'})
if bad then return bad end
local notice, id = ARGV[2], ARGV[3]
local kind = string.match(ARGV[4], '[^/]*$')
if not redis.call('ZSCORE', k.notices, notice) then return {'gone'} end
local function done(word)
  redis.call('ZREM', k.notices, notice)
  return {word}
end
if ARGV[6] == '' then return done('dropped') end
if redis.call('EXISTS', k.run) == 1 then return done('obsolete') end
local suppressed = whole(redis.call('HGET', k.subject_job, 'suppressed:' .. kind), COUNT)
if ARGV[11] == '1' then
  if suppressed == 0 then return done('obsolete') end
  if redis.call('ZCARD', k.manual) > 0 then return {'waits'} end
elseif redis.call('ZCARD', k.manual) >= tonumber(ARGV[9]) then
  suppress({notices = k.notices, job = k.subject_job, counters = KEYS[7], nudge = k.nudge}, kind, ARGV[10], now)
  return done('suppressed')
end
local rev = redis.call('HGET', k.job, 'rev')
if not rev or read_definition(k.job) ~= ARGV[6] then
  redis.call('HSET', k.job, 'rev', int(math.max(whole(rev, FENCE - 1) + 1, micros)), 'kind', 'api', 'source', 'notices', 'token', '',
    'queue', ARGV[8], 'once', '0', 'tz', ARGV[7], 'anchor', int(now), 'since', int(now), 'pending', '')
  set_definition(k.job, ARGV[6])
end
redis.call('HSET', k.job, 'ended', 'finished', 'ended_at', int(now))
redis.call('ZADD', KEYS[6], now, ARGV[4])
redis.call('HSET', k.run, 'job', ARGV[4], 'due', ARGV[5], 'queue', ARGV[8], 'kind', 'manual', 'state', 'scheduled', 'planted_at', int(now),
  'about', notice, 'suppressed', int(suppressed))
redis.call('HDEL', k.subject_job, 'suppressed:' .. kind)
redis.call('ZADD', k.manual, ARGV[5], id)
redis.call('ZADD', k.due, now, id)
nudge_if_head(k.nudge, k.due, id)
return done('planted')
