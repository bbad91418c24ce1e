#!lua
-- Adds the deadlines of a job's planned run that is due and not yet claimed, if the job has
-- deadlines.
-- Guard: the run is the job's pending run. A repeated call changes nothing.
-- KEYS 1 job
-- KEYS 2 deadlines
-- ARGV 1 id
-- ARGV 2 due_ms
-- Reply watched
-- Reply known: the run had its deadlines already
-- Reply gone: the run is no longer planned
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'zset'})
if bad then return bad end
local id = ARGV[1]
local job = redis.call('HMGET', KEYS[1], 'pending', 'watched', 'notify')
if job[1] ~= id then return {'gone'} end
if job[2] == id then return {'known'} end
watch(KEYS[2], nil, id, ARGV[2], job[3], false)
redis.call('HSET', KEYS[1], 'watched', id)
return {'watched'}
