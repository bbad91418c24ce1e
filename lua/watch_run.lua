#!lua
-- Adds the deadlines of a job's planned run that is due and not yet claimed, if the job has
-- deadlines.
-- Guard: the run is the job's pending run. A repeated call changes nothing.
-- Keys: job, deadlines
-- Args: id, due_ms
-- Reply watched
-- Reply known: the run had its deadlines already
-- Reply gone: the run is no longer planned
-- Reply wrong_type: key, found, wanted

local job = redis.call('HMGET', k.job, 'pending', 'watched', 'notify', 'next_at')
if job[1] ~= id then return {'gone'} end
if job[2] == id then return {'known'} end
watch(k.deadlines, nil, id, math.max(tonumber(due_ms), whole(job[4], PARKED)), job[3], false)
redis.call('HSET', k.job, 'watched', id)
return {'watched'}
