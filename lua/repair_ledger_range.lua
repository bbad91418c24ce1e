#!lua flags=allow-oom
-- Reduces a range of a job's ledger, because one of its occurrences has its own record, or some
-- occurrences are in the future.
-- Guard: the range counts this occurrence, and is as the caller read it.
-- Keys: ledger, counters
-- Args: due_ms (of an occurrence in the range), range (FROM:TO:COUNT:STATE, as the caller read it),
--   left (the rest of the range, FROM:TO:COUNT or '')
-- Reply repaired
-- Reply stale: another range now counts the occurrence, or the range changed
-- Reply wrong_type: key, found, wanted

local found = range_at(k.ledger, tonumber(due_ms))
if not found or name_of(found) ~= range then return {'stale'} end
shrink_range(k.ledger, k.counters, found, left)
add_to_counter(k.counters, found.state, tonumber(string.match(left, '%d+$') or 0) - found.count)
return {'repaired'}
