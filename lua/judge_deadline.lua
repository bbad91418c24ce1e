#!lua flags=allow-oom
-- Checks if a run has started or ended by its deadline. If not, adds the notice that its job asks
-- for.
-- A run starts when its node executes it; its claim alone does not count. A run of a paused,
-- removed or ended job need not start. The first run skipped behind an open run counts as not
-- started while that run is open.
-- Guard: the deadline has passed, is in the list and still matches the job; the same step removes
-- the deadline.
-- Keys: deadlines, run, job, notices, counters, nudge, open
-- Args: now, id, kind (start or finish), due_ms
-- Reply notified
-- Reply met: the run has started or ended, or no longer has to
-- Reply early
-- Reply gone: another node did this first
-- Reply wrong_type: key, found, wanted

local entry = id .. ' ' .. kind
local at = redis.call('ZSCORE', k.deadlines, entry)
if not at then return {'gone'} end
if tonumber(at) > now then return {'early'} end
local run = redis.call('HMGET', k.run, 'state', 'attempt', 'started_at', 'first_start', 'handed_back')
local job = redis.call('HMGET', k.job, 'pending', 'notify', 'skipped_behind', 'paused', 'ended', 'next_at')
local is_open = run[1] == 'running' or run[1] == 'scheduled' or not run[1] and job[1] == id
local behind, skipped = string.match(job[3] or '', '^(%S+) (%S+)$')
-- The skipped run's record may be deleted by now, so `skipped_behind` decides.
local is_held_up = kind == 'start' and skipped == id and not is_open and not job[4] and not job[5]
  and redis.call('ZSCORE', k.open, behind)
local attempt = whole(run[2], COUNT)
local has_started = has_executed(k.run, attempt)
if run[1] == 'running' then
  -- A running run may only be waiting for its done_check; the end of that check adds the deadline
  -- again. A run handed back before its deadline was claimed again too late.
  has_started = has_executed(k.run, attempt - 1) or not run[4] and not run[5] or whole(run[3], PARKED) <= tonumber(at)
end
local is_missed = is_held_up or is_open and not (kind == 'start' and has_started)
local notify = job[2] or ''
local within = tonumber(string.match(notify, kind .. '=(%d+)'))
if not within then is_missed = false end
-- An edit of the job extended the deadline, or a run of the job set a later time for this run.
local last = within and math.max(tonumber(due_ms), not has_started and whole(job[6], PARKED) or 0) + within
if is_missed and last > now then
  redis.call('ZADD', k.deadlines, int(last), entry)
  return {'early'}
end
if is_missed then
  add_to_counter(k.counters, 'late', 1)
  if string.find(notify, 'on_late', 1, true) then add_notice(k, 'on_late', id, kind, now) end
end
redis.call('ZREM', k.deadlines, entry)
return {is_missed and 'notified' or 'met'}
