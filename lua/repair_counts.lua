#!lua flags=allow-oom
-- Sets counters to the number of things they count.
-- Guard: each counter still has the value from before the count; the fence only rises. At most 500
-- jobs a call.
-- KEYS 1 counters
-- KEYS 2 output_bytes
-- KEYS 3 fence
-- KEYS 4 output_sizes
-- ARGV 1 waiting_seen: the counter as the caller read it, or ''
-- ARGV 2 waiting: the counted number, or '' to keep the counter
-- ARGV 3 bytes_seen: the counter as the caller read it, or ''
-- ARGV 4 bytes: the counted number, or '' to keep the counter
-- ARGV 5 highest: the highest fence in use, or '' to keep the fence
-- ARGV 6 ledger_seen: the counter of ranges as the caller read it, or ''
-- ARGV 7 ledger: the counted number, or '' to keep the counter
-- ARGV* job: a job whose counter in output_sizes is wrong
-- ARGV* size_seen: the counter as the caller read it, or ''
-- ARGV* size: the counted number of bytes
-- Reply repaired: a text for each repair
-- Reply sound: all counters were correct
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'string', KEYS[3], 'string', KEYS[4], 'hash'})
if bad then return bad end
local reply = {'repaired'}
local function is_other(seen, counted) return counted ~= '' and (seen == '' and '0' or seen) ~= counted end
if is_other(ARGV[1], ARGV[2]) and (redis.call('HGET', KEYS[1], 'waiting') or '') == ARGV[1] then
  redis.call('HSET', KEYS[1], 'waiting', ARGV[2])
  reply[#reply + 1] = 'counter of waiting runs set to ' .. ARGV[2]
end
if is_other(ARGV[6], ARGV[7]) and (redis.call('HGET', KEYS[1], 'ledger_ranges') or '') == ARGV[6] then
  redis.call('HSET', KEYS[1], 'ledger_ranges', ARGV[7])
  reply[#reply + 1] = 'counter of ledger ranges set to ' .. ARGV[7]
end
if is_other(ARGV[3], ARGV[4]) and (redis.call('GET', KEYS[2]) or '') == ARGV[3] then
  redis.call('SET', KEYS[2], ARGV[4])
  reply[#reply + 1] = 'counter of output bytes set to ' .. ARGV[4]
end
local sizes = 0
for at = 8, #ARGV, 3 do
  local job, seen, size = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if (redis.call('HGET', KEYS[4], job) or '') == seen then
    if size == '0' then redis.call('HDEL', KEYS[4], job) else redis.call('HSET', KEYS[4], job, size) end
    sizes = sizes + 1
  end
end
if sizes > 0 then reply[#reply + 1] = 'counters of output bytes corrected for ' .. sizes .. (sizes == 1 and ' job' or ' jobs') end
-- If no fence is in use, the counter is deleted, and the next claim takes a new fence from the
-- clock.
local last = redis.call('GET', KEYS[3])
if ARGV[5] ~= '' and (whole(last, FENCE) < tonumber(ARGV[5]) or last and whole(last, FENCE) == 0) then
  if tonumber(ARGV[5]) > 0 then redis.call('SET', KEYS[3], ARGV[5]) else redis.call('DEL', KEYS[3]) end
  reply[#reply + 1] = 'fence counter corrected'
end
if not reply[2] then return {'sound'} end
return reply
