#!lua flags=allow-oom
-- Reduces a range of a job's ledger, because one of its occurrences has its own record, or some
-- occurrences are in the future.
-- Guard: the range counts this occurrence, and is as the caller read it.
-- KEYS 1 ledger
-- KEYS 2 counters
-- ARGV 1 due_ms: of an occurrence in the range
-- ARGV 2 range: FROM:TO:COUNT:STATE, as the caller read it
-- ARGV 3 left: the rest of the range, FROM:TO:COUNT or ''
-- Reply repaired
-- Reply stale: another range now counts the occurrence, or the range changed
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'hash'})
if bad then return bad end
local range = range_at(KEYS[1], tonumber(ARGV[1]))
if not range or name_of(range) ~= ARGV[2] then return {'stale'} end
shrink_range(KEYS[1], KEYS[2], range, ARGV[3])
add_to_counter(KEYS[2], range.state, tonumber(string.match(ARGV[3], '%d+$') or 0) - range.count)
return {'repaired'}
