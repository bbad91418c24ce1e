#!lua flags=no-writes,allow-oom
-- Lists the due runs of a lane that come after one of its entries. A poll lists only the first
-- runs, and all of these may wait for one closed gate.
-- Guard: none; the script only reads.
-- Keys: due
-- Args: now, after (the entry, or '' for the start of the lane), most (the most runs to list)
-- Reply behind: {id, ready, ...} in ready order
-- Reply gone: the lane no longer has the entry
-- Reply wrong_type: key, found, wanted

local due = k.due
local first = 0
if after ~= '' then
  local rank = redis.call('ZRANK', due, after)
  if not rank then return {'gone'} end
  first = rank + 1
end
-- The entries are read by rank, so that Redis need not visit all entries before them.
local found, due_now = redis.call('ZRANGE', due, first, first + tonumber(most) - 1, 'WITHSCORES'), {}
for at = 1, #found, 2 do
  if tonumber(found[at + 1]) > now then break end
  due_now[at], due_now[at + 1] = found[at], found[at + 1]
end
return {'behind', due_now}
