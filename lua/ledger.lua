-- What scripts that write a job's ledger have beside the prelude. A range is a member TO:COUNT:STATE:REASON; its score is FROM.

-- Ranges kept of a job.
local RANGES = 1000

local function member_of(range)
  return int(range.to) .. ':' .. int(range.count) .. ':' .. range.state .. ':' .. range.reason
end

-- The range that `member` says, or nil if it says none.
local function range_of(member, from)
  local to, count, state, reason = string.match(member or '', '^(%d+):(%d+):([^:]*):(.*)$')
  if not to then return nil end
  return {from = tonumber(from), to = whole(to, PARKED), count = whole(count, FENCE), state = state, reason = reason}
end

-- Another range with the same end, count, state and reason would be the same member: both are counted in one.
local function add_range(ledger, totals, range)
  local other = redis.call('ZSCORE', ledger, member_of(range))
  while other do
    redis.call('ZREM', ledger, member_of(range))
    tally(totals, 'ledger_ranges', -1)
    range.from, range.count = math.min(range.from, tonumber(other)), range.count * 2
    other = redis.call('ZSCORE', ledger, member_of(range))
  end
  redis.call('ZADD', ledger, range.from, member_of(range))
  tally(totals, 'ledger_ranges', 1)
end

-- The narrowest range that holds `due`, but for those that name no end: it tells what became of that occurrence. Of two alike the one that begins first.
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

-- What a caller that read `range` names it by; '' of none.
local function name_of(range)
  if not range then return '' end
  return int(range.from) .. ':' .. int(range.to) .. ':' .. int(range.count) .. ':' .. range.state
end

-- Has `range` tell of `left` (FROM:TO:COUNT) only, or go if that is ''.
local function shrink_range(ledger, totals, range, left)
  redis.call('ZREM', ledger, member_of(range))
  tally(totals, 'ledger_ranges', -1)
  local from, to, count = string.match(left, '^(%d+):(%d+):(%d+)$')
  if not from then return end
  add_range(ledger, totals, {from = tonumber(from), to = tonumber(to), count = tonumber(count), state = range.state, reason = range.reason})
end
