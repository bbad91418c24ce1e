#!lua flags=allow-oom
-- Deletes the records of runs that are over and past what is kept, or only takes them out of history.
-- Guard: the run's state is final; one that is not only leaves the indexes. At most 100 a call.
-- KEYS 1 history
-- KEYS 2 dead
-- KEYS* run
-- KEYS* job_history
-- KEYS* job_dead
-- ARGV* id
-- ARGV* reach: record, all of the run; history, but a dead letter's record stays; dead, all of it if it still is a dead letter
-- Reply forgotten: how many
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'zset'})
if bad then return bad end
local function leave(index, id)
  if redis.call('TYPE', index).ok == 'zset' then redis.call('ZREM', index, id) end
end
local forgotten = 0
for at = 1, #ARGV / 2 do
  local run, job_history, job_dead = KEYS[at * 3], KEYS[at * 3 + 1], KEYS[at * 3 + 2]
  local id, reach = ARGV[at * 2 - 1], ARGV[at * 2]
  local is_dead = redis.call('ZSCORE', KEYS[2], id)
  if is_dead or reach ~= 'dead' then
    if reach ~= 'history' or not is_dead then
      if redis.call('TYPE', run).ok == 'hash' then
        local state = redis.call('HGET', run, 'state')
        if state ~= 'scheduled' and state ~= 'running' then redis.call('DEL', run) end
      end
      redis.call('ZREM', KEYS[2], id)
      leave(job_dead, id)
    end
    redis.call('ZREM', KEYS[1], id)
    leave(job_history, id)
    forgotten = forgotten + 1
  end
end
return {'forgotten', forgotten}
