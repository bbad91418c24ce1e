#!lua flags=allow-oom
-- Pauses a queue or resumes it. Running runs go on, and due runs stay due.
-- Guard: the queue was declared, or needs no declaration. A repeated call replies `already`.
-- KEYS 1 queue: its settings
-- KEYS 2 queues
-- KEYS 3 nudge
-- ARGV 1 now
-- ARGV 2 queue_name
-- ARGV 3 undeclared: the concurrency of a queue that needs no declaration, or ''
-- ARGV 4 action: pause or resume
-- ARGV 5 by: the user who asks for the change, or ''
-- Reply paused
-- Reply resumed
-- Reply already
-- Reply unknown
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'hash'})
if bad then return bad end
local paused = redis.call('HMGET', KEYS[1], 'paused', 'paused_in')
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then
  if ARGV[3] == '' then return {'unknown'} end
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
end
if ARGV[4] == 'resume' then
  if not paused[1] then return {'already'} end
  redis.call('HDEL', KEYS[1], 'paused', 'paused_in', 'paused_by')
  wake_nodes(KEYS[3], 'pools')
  return {'resumed'}
end
if paused[1] then
  -- A pause from a file that is also made by hand is kept at the file's next edit.
  redis.call('HSET', KEYS[1], 'paused_in', 'hand')
  return {'already'}
end
redis.call('HSET', KEYS[1], 'paused', int(now), 'paused_in', 'hand', 'paused_by', ARGV[5])
wake_nodes(KEYS[3], 'pools')
return {'paused'}
