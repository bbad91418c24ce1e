#!lua flags=allow-oom
-- Deletes kept outputs: the oldest outputs while a job or all jobs have too many bytes, or outputs
-- beyond their age.
-- Guard: none; a key that is not an output stays and only leaves the indexes. At most 100 outputs a
-- call.
-- Keys: outputs, output_bytes, output_sizes, counters
-- Keys of each item: output, job_outputs
-- Args of each item: member (of outputs, one for each output key), job_name
-- Reply forgotten: the number of output bytes that remain for all jobs
-- Reply wrong_type: key, found, wanted

local bytes, deleted = whole(redis.call('GET', k.output_bytes), FENCE), 0
for at = 1, item_count do
  local k = item(at)
  local output, member, job = k.output, k.member, k.job_name
  if redis.call('TYPE', output).ok == 'hash' then
    local size = whole(redis.call('HGET', output, 'size'), FENCE)
    redis.call('DEL', output)
    local left = whole(redis.call('HGET', k.output_sizes, job), FENCE) - size
    if left > 0 then redis.call('HSET', k.output_sizes, job, int(left)) else redis.call('HDEL', k.output_sizes, job) end
    bytes, deleted = bytes - size, deleted + 1
  end
  redis.call('ZREM', k.outputs, member)
  if redis.call('TYPE', k.job_outputs).ok == 'zset' then redis.call('ZREM', k.job_outputs, member) end
end
if redis.call('ZCARD', k.outputs) == 0 then bytes = 0 end
redis.call('SET', k.output_bytes, int(math.max(bytes, 0)))
if deleted > 0 then add_to_counter(k.counters, 'trimmed_outputs', deleted) end
return {'forgotten', int(math.max(bytes, 0))}
