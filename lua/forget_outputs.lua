#!lua flags=allow-oom
-- Deletes kept outputs: the oldest, when there are too many bytes, or those past their age.
-- Guard: none; what is no output stays and only leaves the index. At most 100 a call.
-- KEYS 1 outputs
-- KEYS 2 output_bytes
-- KEYS 3 totals
-- KEYS* output
-- ARGV* member: of outputs, one for each output key
-- Reply forgotten: bytes kept in the namespace
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'string', KEYS[3], 'hash'})
if bad then return bad end
local bytes, deleted = whole(redis.call('GET', KEYS[2]), FENCE), 0
for at = 4, #KEYS do
  if redis.call('TYPE', KEYS[at]).ok == 'hash' then
    bytes = bytes - whole(redis.call('HGET', KEYS[at], 'size'), FENCE)
    redis.call('DEL', KEYS[at])
    deleted = deleted + 1
  end
  redis.call('ZREM', KEYS[1], ARGV[at - 3])
end
if deleted > 0 then tally(KEYS[3], 'trimmed_outputs', deleted) end
if redis.call('ZCARD', KEYS[1]) == 0 then bytes = 0 end
redis.call('SET', KEYS[2], int(math.max(bytes, 0)))
return {'forgotten', int(math.max(bytes, 0))}
