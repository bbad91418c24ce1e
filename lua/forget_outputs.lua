#!lua flags=allow-oom
-- Deletes kept outputs: the oldest outputs while a job or all jobs have too many bytes, or outputs
-- beyond their age.
-- Guard: none; a key that is not an output stays and only leaves the indexes. At most 100 outputs a
-- call.
-- KEYS 1 outputs
-- KEYS 2 output_bytes
-- KEYS 3 output_sizes
-- KEYS 4 counters
-- KEYS* output
-- KEYS* job_outputs
-- ARGV* member: of outputs, one for each output key
-- ARGV* job_name
-- Reply forgotten: the number of output bytes that remain for all jobs
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'string', KEYS[3], 'hash', KEYS[4], 'hash'})
if bad then return bad end
local bytes, deleted = whole(redis.call('GET', KEYS[2]), FENCE), 0
for at = 1, #ARGV / 2 do
  local output, job_outputs, member, job = KEYS[at * 2 + 3], KEYS[at * 2 + 4], ARGV[at * 2 - 1], ARGV[at * 2]
  if redis.call('TYPE', output).ok == 'hash' then
    local size = whole(redis.call('HGET', output, 'size'), FENCE)
    redis.call('DEL', output)
    local left = whole(redis.call('HGET', KEYS[3], job), FENCE) - size
    if left > 0 then redis.call('HSET', KEYS[3], job, int(left)) else redis.call('HDEL', KEYS[3], job) end
    bytes, deleted = bytes - size, deleted + 1
  end
  redis.call('ZREM', KEYS[1], member)
  if redis.call('TYPE', job_outputs).ok == 'zset' then redis.call('ZREM', job_outputs, member) end
end
if redis.call('ZCARD', KEYS[1]) == 0 then bytes = 0 end
redis.call('SET', KEYS[2], int(math.max(bytes, 0)))
if deleted > 0 then add_to_counter(KEYS[4], 'trimmed_outputs', deleted) end
return {'forgotten', int(math.max(bytes, 0))}
