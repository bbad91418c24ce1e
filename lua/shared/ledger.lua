-- The functions of scripts that write a job's ledger.
-- A range is a member TO:COUNT:STATE:REASON; its score is FROM.

-- The most ranges kept of a job.
local RANGES = 1000

local function member_of(range)
  return int(range.to) .. ':' .. int(range.count) .. ':' .. range.state .. ':' .. range.reason
end

-- Returns the range that `member` encodes, or nil if it encodes none.
local function range_of(member, from)
  local to, count, state, reason = string.match(member or '', '^(%d+):(%d+):([^:]*):(.*)$')
  if not to then return nil end
  return {from = tonumber(from), to = whole(to, PARKED), count = whole(count, FENCE), state = state, reason = reason}
end

-- Adds a range. A range with the same end, count, state and reason would be the same member, so the
-- two ranges are merged into one.
local function add_range(ledger, counters, range)
  local other = redis.call('ZSCORE', ledger, member_of(range))
  while other do
    redis.call('ZREM', ledger, member_of(range))
    add_to_counter(counters, 'ledger_ranges', -1)
    range.from, range.count = math.min(range.from, tonumber(other)), range.count * 2
    other = redis.call('ZSCORE', ledger, member_of(range))
  end
  redis.call('ZADD', ledger, range.from, member_of(range))
  add_to_counter(counters, 'ledger_ranges', 1)
end

-- Returns the narrowest ended range that contains `due`, which says how that occurrence ended. Of
-- two equally narrow ranges, the range that begins first is returned. Ranges without a final state
-- are ignored.
local function range_at(ledger, due)
  local found = redis.call('ZREVRANGEBYSCORE', ledger, int(due), '-inf', 'WITHSCORES', 'LIMIT', 0, RANGES)
  local narrowest
  for at = 1, #found, 2 do
    local range = range_of(found[at], found[at + 1])
    if range and ENDS[range.state] and range.to >= due
      and (not narrowest or range.to - range.from <= narrowest.to - narrowest.from) then narrowest = range end
  end
  return narrowest
end

-- Returns the name by which a caller refers to `range`; '' for nil.
local function name_of(range)
  if not range then return '' end
  return int(range.from) .. ':' .. int(range.to) .. ':' .. int(range.count) .. ':' .. range.state
end

-- Reduces `range` to `left` (FROM:TO:COUNT), or removes it if `left` is ''.
local function shrink_range(ledger, counters, range, left)
  redis.call('ZREM', ledger, member_of(range))
  add_to_counter(counters, 'ledger_ranges', -1)
  local from, to, count = string.match(left, '^(%d+):(%d+):(%d+)$')
  if not from then return end
  add_range(ledger, counters, {from = tonumber(from), to = tonumber(to), count = tonumber(count), state = range.state, reason = range.reason})
end
