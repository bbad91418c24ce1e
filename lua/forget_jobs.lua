#!lua flags=allow-oom
-- Deletes the definitions of jobs that ended, past what is kept of them.
-- Guard: the job has ended and nothing of it is open or waiting; one made anew only leaves the index. At most 100 a call.
-- KEYS 1 finished
-- KEYS* job
-- KEYS* open
-- KEYS* waiting
-- ARGV* job_name
-- Reply forgotten: how many
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset'})
if bad then return bad end
local forgotten = 0
for at = 1, #ARGV do
  local job, open, waiting = KEYS[at * 3 - 1], KEYS[at * 3], KEYS[at * 3 + 1]
  local is_idle = redis.call('EXISTS', open, waiting) == 0
  local ended = redis.call('TYPE', job).ok == 'hash' and redis.call('HGET', job, 'ended')
  if ended and is_idle then
    redis.call('DEL', job)
    forgotten = forgotten + 1
  end
  if not ended or is_idle then redis.call('ZREM', KEYS[1], ARGV[at]) end
end
return {'forgotten', forgotten}
