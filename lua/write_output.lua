#!lua
-- Stores the output that an attempt has written so far. Redis itself refuses this script when
-- memory is full; the run goes on without stored output.
-- Guard: the run still has this fence, so that a node that lost the run cannot overwrite later
-- output.
-- Keys: run, output, outputs, output_bytes, job_outputs, output_sizes
-- Args: now, id, fence, attempt, head, tail, dropped, job_name
-- Reply written: the number of output bytes kept for the job
-- Reply lost
-- Reply wrong_type: key, found, wanted

if redis.call('HGET', k.run, 'fence') ~= fence then return {'lost'} end
local size = #head + #tail
local before = whole(redis.call('HGET', k.output, 'size'), FENCE)
redis.call('HSET', k.output, 'head', head, 'tail', tail, 'dropped', dropped, 'size', size)
redis.call('ZADD', k.outputs, now, id .. '#' .. attempt)
redis.call('ZADD', k.job_outputs, now, id .. '#' .. attempt)
local bytes = whole(redis.call('GET', k.output_bytes), FENCE)
redis.call('SET', k.output_bytes, int(math.max(bytes + size - before, 0)))
local of_job = math.max(whole(redis.call('HGET', k.output_sizes, job_name), FENCE) + size - before, 0)
redis.call('HSET', k.output_sizes, job_name, int(of_job))
return {'written', int(of_job)}
