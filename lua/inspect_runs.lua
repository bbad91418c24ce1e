#!lua flags=no-writes,allow-oom
-- Reads the index entries of several runs at one moment.
-- Guard: none; the script only reads. At most 200 items a call.
-- KEYS 1 leases
-- KEYS 2 stop_requests
-- KEYS 3 history
-- KEYS 4 dead
-- KEYS 5 deadlines
-- KEYS* run
-- KEYS* job
-- KEYS* open: the job's list of open regular runs, or of manual runs, by the kind of the run
-- KEYS* waiting
-- KEYS* catch_up
-- KEYS* job_history
-- KEYS* job_dead
-- KEYS* due: of one lane; each run is one item for each lane
-- KEYS* running: of the queue of that lane
-- ARGV* id
-- ARGV* fence: of a lease under which the run was found, or ''
-- Reply items: one of these replies for each item
-- Reply run: 1 if there is a record, state, fence, queue, places and end of the run, rev and queue
--   of its job, 1 if the job plans this run, 1 if a pause keeps the run, 1 if the run was skipped
--   first behind an open run; all of these again as one text; then the score in the due set, of the
--   lease under the record's fence, of the lease under the given fence, in open, waiting and
--   spread, the reason to stop the run, the score in history, job_history, dead, job_dead and
--   running, its start deadline and its end deadline; '' for a missing value
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'hash', KEYS[3], 'zset', KEYS[4], 'zset', KEYS[5], 'zset'})
if bad then return bad end
local function score(key, member) return redis.call('ZSCORE', key, member) or '' end
local reply = {'items'}
for item = 1, #ARGV / 2 do
  local at, id, given = 5 + (item - 1) * 9, ARGV[item * 2 - 1], ARGV[item * 2]
  local item_bad = wrong_type({KEYS[at + 1], 'hash', KEYS[at + 2], 'hash', KEYS[at + 3], 'zset', KEYS[at + 4], 'zset', KEYS[at + 5], 'zset',
    KEYS[at + 6], 'zset', KEYS[at + 7], 'zset', KEYS[at + 8], 'zset',
    KEYS[at + 9], 'zset'})
  if item_bad then
    reply[#reply + 1] = item_bad
  else
    local run, job, is_first, seen = placed_by(KEYS[at + 1], KEYS[at + 2], KEYS[at + 3], id)
    reply[#reply + 1] = {'run', redis.call('EXISTS', KEYS[at + 1]), run[1] or '', run[2] or '', run[3] or '', run[4] or '',
      run[5] or '', job[1] or '', job[2] or '', job[3] == id and 1 or 0, job[4] == id and 1 or 0, is_first and 1 or 0, seen,
      score(KEYS[at + 8], id), run[2] and score(KEYS[1], id .. '#' .. run[2]) or '',
      given ~= '' and score(KEYS[1], id .. '#' .. given) or '', score(KEYS[at + 3], id), score(KEYS[at + 4], id),
      score(KEYS[at + 5], id), redis.call('HGET', KEYS[2], id) or '', score(KEYS[3], id), score(KEYS[at + 6], id),
      score(KEYS[4], id), score(KEYS[at + 7], id), score(KEYS[at + 9], id), score(KEYS[5], id .. ' start'),
      score(KEYS[5], id .. ' finish')}
  end
end
return reply
