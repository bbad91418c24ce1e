#!lua flags=allow-oom
-- Deletes the definitions of jobs that ended, past what is kept of them.
-- Guard: the job has ended and nothing of it is open, waiting or spread; one made anew only leaves the index. At most 100 a call.
-- KEYS 1 finished
-- KEYS* job
-- KEYS* open
-- KEYS* waiting
-- KEYS* spread
-- KEYS* deeds
-- ARGV 1 now
-- ARGV* job_name
-- Reply forgotten: how many
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset'})
if bad then return bad end
local forgotten = 0
local now = clock(ARGV[1])
for at = 1, #ARGV - 1 do
  local name, job = ARGV[at + 1], KEYS[at * 5 - 3]
  local is_idle = redis.call('EXISTS', KEYS[at * 5 - 2], KEYS[at * 5 - 1], KEYS[at * 5]) == 0
  local ended = redis.call('TYPE', job).ok == 'hash' and redis.call('HGET', job, 'ended')
  if ended and is_idle then
    redis.call('DEL', job)
    if redis.call('TYPE', KEYS[at * 5 + 1]).ok == 'zset' then redis.call('DEL', KEYS[at * 5 + 1]) end
    forgotten = forgotten + 1
  end
  if not ended or is_idle then
    redis.call('ZREM', KEYS[1], name)
  else
    -- As one that ended just now, it does not stand before those that can go.
    redis.call('ZADD', KEYS[1], now, name)
  end
end
return {'forgotten', forgotten}
