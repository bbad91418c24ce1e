#!lua flags=allow-oom
-- Pauses a queue or resumes it. Running runs go on, and due runs stay due.
-- Guard: the queue was declared, or needs no declaration. A repeated call replies `already`.
-- Keys: queue (its settings), queues, nudge
-- Args: now, queue_name, undeclared (the concurrency of a queue that needs no declaration, or ''),
--   action (pause or resume), by (the user who asks for the change, or '')
-- Reply paused
-- Reply resumed
-- Reply already
-- Reply unknown
-- Reply wrong_type: key, found, wanted

local paused = redis.call('HMGET', k.queue, 'paused', 'paused_in')
if redis.call('HEXISTS', k.queues, queue_name) == 0 then
  if undeclared == '' then return {'unknown'} end
  redis.call('HSET', k.queues, queue_name, undeclared)
end
if action == 'resume' then
  if not paused[1] then return {'already'} end
  redis.call('HDEL', k.queue, 'paused', 'paused_in', 'paused_by')
  wake_nodes(k.nudge, 'pools')
  return {'resumed'}
end
if paused[1] then
  -- A pause from a file that is also made by hand is kept at the file's next edit.
  redis.call('HSET', k.queue, 'paused_in', 'hand')
  return {'already'}
end
redis.call('HSET', k.queue, 'paused', int(now), 'paused_in', 'hand', 'paused_by', by)
wake_nodes(k.nudge, 'pools')
return {'paused'}
