#!lua flags=allow-oom
-- Deletes the records of runs that are over and past what history keeps.
-- Guard: the run's state is final; one that is not only leaves the index. At most 100 a call.
-- KEYS 1 history
-- KEYS* run
-- KEYS* job_history
-- ARGV* id
-- Reply forgotten: how many
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset'})
if bad then return bad end
local forgotten = 0
for at = 1, #ARGV do
  local run, job_history = KEYS[at * 2], KEYS[at * 2 + 1]
  if redis.call('TYPE', run).ok == 'hash' then
    local state = redis.call('HGET', run, 'state')
    if state ~= 'scheduled' and state ~= 'running' then redis.call('DEL', run) end
  end
  redis.call('ZREM', KEYS[1], ARGV[at])
  if redis.call('TYPE', job_history).ok == 'zset' then redis.call('ZREM', job_history, ARGV[at]) end
  forgotten = forgotten + 1
end
return {'forgotten', forgotten}
