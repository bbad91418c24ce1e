#!lua
-- Changes settings of a queue by hand. The settings are kept until the queue's section in a file is
-- edited.
-- Guard: the queue was declared, or needs no declaration. A repeated call changes nothing more.
-- Keys: queue (its settings), queues, nudge
-- Args: now, queue_name, rule (declared (the queue must be declared), or always (it exists in any
--   case)), plain (the concurrency of a queue without a setting), by (the user who asks for the
--   change, or '')
-- Args of each item: field, value ('' removes the setting)
-- Reply set
-- Reply unknown
-- Reply wrong_type: key, found, wanted

if redis.call('HEXISTS', k.queues, queue_name) == 0 then
  if rule == 'declared' then return {'unknown'} end
  redis.call('HSET', k.queues, queue_name, plain)
end
for at = 1, item_count do
  local k = item(at)
  local field, value = k.field, k.value
  local is_by_hand = value ~= ''
  -- Without a value by hand, the queue shows the value of the last file that declared a value.
  if field == 'concurrency' and not is_by_hand then value = redis.call('HGET', k.queue, 'concurrency_of_file') or '' end
  if value == '' then redis.call('HDEL', k.queue, field) else redis.call('HSET', k.queue, field, value) end
  if field == 'concurrency' then
    -- A value set by hand applies on each node and overrides the file of the node.
    redis.call('HSET', k.queue, 'concurrency_by', is_by_hand and 'hand' or 'file')
    redis.call('HSET', k.queues, queue_name, value == '' and plain or value)
  end
end
redis.call('HSET', k.queue, 'set_at', int(now), 'set_by', by)
wake_nodes(k.nudge, 'pools')
return {'set'}
