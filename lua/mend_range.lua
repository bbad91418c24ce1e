#!lua flags=allow-oom
-- Has a range of a job's ledger tell of one occurrence less, which has a record of its own.
-- Guard: it is the range that tells of the occurrence, and as read.
-- KEYS 1 ledger
-- KEYS 2 totals
-- ARGV 1 due_ms: of the occurrence
-- ARGV 2 range: FROM:TO:COUNT:STATE, as read
-- ARGV 3 left: what is left of it, FROM:TO:COUNT or ''
-- Reply mended
-- Reply stale: another tells of it by now, or it tells otherwise
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'hash'})
if bad then return bad end
local range = range_at(KEYS[1], tonumber(ARGV[1]))
if not range or name_of(range) ~= ARGV[2] then return {'stale'} end
shrink_range(KEYS[1], KEYS[2], range, ARGV[3])
tally(KEYS[2], range.state, -1)
return {'mended'}
