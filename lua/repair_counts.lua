#!lua flags=allow-oom
-- Sets counters to the number of things they count.
-- Guard: each counter still has the value from before the count; the fence only rises. At most 500
-- jobs a call.
-- Keys: counters, output_bytes, fence, output_sizes
-- Args: waiting_seen (the counter as the caller read it, or ''), waiting (the counted number, or ''
--   to keep the counter), bytes_seen (the counter as the caller read it, or ''), bytes (the counted
--   number, or '' to keep the counter), highest (the highest fence in use, or '' to keep the
--   fence), ledger_seen (the counter of ranges as the caller read it, or ''), ledger (the counted
--   number, or '' to keep the counter)
-- Args of each item: job (a job whose counter in output_sizes is wrong), size_seen (the counter as
--   the caller read it, or ''), size (the counted number of bytes)
-- Reply repaired: a text for each repair
-- Reply sound: all counters were correct
-- Reply wrong_type: key, found, wanted

local reply = {'repaired'}
local function is_other(seen, counted) return counted ~= '' and (seen == '' and '0' or seen) ~= counted end
if is_other(waiting_seen, waiting) and (redis.call('HGET', k.counters, 'waiting') or '') == waiting_seen then
  redis.call('HSET', k.counters, 'waiting', waiting)
  reply[#reply + 1] = 'counter of waiting runs set to ' .. waiting
end
if is_other(ledger_seen, ledger) and (redis.call('HGET', k.counters, 'ledger_ranges') or '') == ledger_seen then
  redis.call('HSET', k.counters, 'ledger_ranges', ledger)
  reply[#reply + 1] = 'counter of ledger ranges set to ' .. ledger
end
if is_other(bytes_seen, bytes) and (redis.call('GET', k.output_bytes) or '') == bytes_seen then
  redis.call('SET', k.output_bytes, bytes)
  reply[#reply + 1] = 'counter of output bytes set to ' .. bytes
end
local sizes = 0
for at = 1, item_count do
  local k = item(at)
  local job, seen, size = k.job, k.size_seen, k.size
  if (redis.call('HGET', k.output_sizes, job) or '') == seen then
    if size == '0' then redis.call('HDEL', k.output_sizes, job) else redis.call('HSET', k.output_sizes, job, size) end
    sizes = sizes + 1
  end
end
if sizes > 0 then reply[#reply + 1] = 'counters of output bytes corrected for ' .. sizes .. (sizes == 1 and ' job' or ' jobs') end
-- If no fence is in use, the counter is deleted, and the next claim takes a new fence from the
-- clock.
local last = redis.call('GET', k.fence)
if highest ~= '' and (whole(last, FENCE) < tonumber(highest) or last and whole(last, FENCE) == 0) then
  if tonumber(highest) > 0 then redis.call('SET', k.fence, highest) else redis.call('DEL', k.fence) end
  reply[#reply + 1] = 'fence counter corrected'
end
if not reply[2] then return {'sound'} end
return reply
