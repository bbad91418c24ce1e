#!lua flags=no-writes,allow-oom
-- Reads a page of an index behind a cursor: the entries after a score and a member.
-- The entry of the cursor may be gone or have another score. The page begins at the place where an
-- entry with the cursor's score and member would be.
-- Guard: none; the script only reads.
-- Keys: index:zset (of jobs or of ended runs)
-- Args: score, member, order (up, or down for the highest score first), most (the most entries)
-- Reply page: {member, score, ...} in this order
-- Reply wrong_type: key, found, wanted

-- Lua's own comparison of texts follows the locale of the server.
local function is_less(one, other)
  for at = 1, math.min(#one, #other) do
    local a, b = string.byte(one, at), string.byte(other, at)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- Entries of the cursor's score lie at the ranks `first` to `last` - 1, in the order of their bytes.
local first = redis.call('ZCOUNT', k.index, '-inf', '(' .. score)
local last = first + redis.call('ZCOUNT', k.index, score, score)
local function entry(rank) return redis.call('ZRANGE', k.index, rank, rank)[1] end
local function is_before(rank)
  if order == 'up' then return not is_less(member, entry(rank)) end
  return is_less(entry(rank), member)
end
while first < last do
  local middle = math.floor((first + last) / 2)
  if is_before(middle) then first = middle + 1 else last = middle end
end
if order == 'up' then return {'page', redis.call('ZRANGE', k.index, first, first + most - 1, 'WITHSCORES')} end
if first == 0 then return {'page', {}} end
local found, page = redis.call('ZRANGE', k.index, math.max(first - most, 0), first - 1, 'WITHSCORES'), {}
for at = #found - 1, 1, -2 do page[#page + 1], page[#page + 2] = found[at], found[at + 1] end
return {'page', page}
