#!lua flags=allow-oom
-- Reduces a range of a job's ledger: one of its occurrences has a record of its own, or some of
-- them are still to come.
-- Guard: the range is the one that counts this occurrence, and is as read.
-- KEYS 1 ledger
-- KEYS 2 counters
-- ARGV 1 due_ms: of an occurrence in the range
-- ARGV 2 range: FROM:TO:COUNT:STATE, as read
-- ARGV 3 left: what remains of the range, FROM:TO:COUNT or ''
-- Reply repaired
-- Reply stale: another range counts the occurrence by now, or the range changed
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'hash'})
if bad then return bad end
local range = range_at(KEYS[1], tonumber(ARGV[1]))
if not range or name_of(range) ~= ARGV[2] then return {'stale'} end
shrink_range(KEYS[1], KEYS[2], range, ARGV[3])
add_to_counter(KEYS[2], range.state, tonumber(string.match(ARGV[3], '%d+$') or 0) - range.count)
return {'repaired'}
