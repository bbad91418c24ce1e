#!lua flags=no-writes,allow-oom
-- Lists the due runs of a lane that come after one of its entries. A poll lists only the first
-- runs, and all of these may wait for one closed gate.
-- Guard: none; the script only reads.
-- KEYS 1 due
-- ARGV 1 now
-- ARGV 2 after: the entry, or '' for the start of the lane
-- ARGV 3 most: the most runs to list
-- Reply behind: {id, ready, ...} in ready order
-- Reply gone: the lane no longer has the entry
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local due = KEYS[1]
local bad = wrong_type({due, 'zset'})
if bad then return bad end
local first = 0
if ARGV[2] ~= '' then
  local rank = redis.call('ZRANK', due, ARGV[2])
  if not rank then return {'gone'} end
  first = rank + 1
end
-- The entries are read by rank, so that Redis need not visit all entries before them.
local found, due_now = redis.call('ZRANGE', due, first, first + tonumber(ARGV[3]) - 1, 'WITHSCORES'), {}
for at = 1, #found, 2 do
  if tonumber(found[at + 1]) > now then break end
  due_now[at], due_now[at + 1] = found[at], found[at + 1]
end
return {'behind', due_now}
