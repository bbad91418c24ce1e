#!lua
-- Changes settings of a queue by hand. The settings are kept until the queue's section in a file is
-- edited.
-- Guard: the queue was declared, or needs no declaration. A repeated call changes nothing more.
-- KEYS 1 queue: its settings
-- KEYS 2 queues
-- KEYS 3 nudge
-- ARGV 1 now
-- ARGV 2 queue_name
-- ARGV 3 rule: declared (the queue must be declared), or always (it exists in any case)
-- ARGV 4 plain: the concurrency of a queue without a setting
-- ARGV 5 by: the user who asks for the change, or ''
-- ARGV* field
-- ARGV* value: '' removes the setting
-- Reply set
-- Reply unknown
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'hash'})
if bad then return bad end
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then
  if ARGV[3] == 'declared' then return {'unknown'} end
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[4])
end
for at = 6, #ARGV, 2 do
  local field, value = ARGV[at], ARGV[at + 1]
  local is_by_hand = value ~= ''
  -- Without a value by hand, the queue shows the value of the last file that declared a value.
  if field == 'concurrency' and not is_by_hand then value = redis.call('HGET', KEYS[1], 'concurrency_of_file') or '' end
  if value == '' then redis.call('HDEL', KEYS[1], field) else redis.call('HSET', KEYS[1], field, value) end
  if field == 'concurrency' then
    -- A value set by hand applies on each node and overrides the file of the node.
    redis.call('HSET', KEYS[1], 'concurrency_by', is_by_hand and 'hand' or 'file')
    redis.call('HSET', KEYS[2], ARGV[2], value == '' and ARGV[4] or value)
  end
end
redis.call('HSET', KEYS[1], 'set_at', int(now), 'set_by', ARGV[5])
wake_nodes(KEYS[3], 'pools')
return {'set'}
