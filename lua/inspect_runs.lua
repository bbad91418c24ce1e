#!lua flags=no-writes,allow-oom
-- Reads the index entries of several runs at one moment.
-- Guard: none; the script only reads. At most 200 items a call.
-- Keys: leases, stop_requests, history, dead, deadlines
-- Keys of each item: run, job, open_list:zset (the open regular runs of the job, or its manual
--   runs, by the kind of the run), waiting, catch_up, job_history, job_dead, due (of one lane; each
--   run is one item for each lane), running (of the queue of that lane)
-- Args of each item: id, fence (of a lease under which the run was found, or '')
-- Reply items: one of these replies for each item
-- Reply run: 1 if there is a record, state, fence, queue, places and end of the run, rev and queue
--   of its job, 1 if the job plans this run, 1 if a pause keeps the run, 1 if the run was skipped
--   first behind an open run; all of these again as one text; then the score in the due set, of the
--   lease under the record's fence, of the lease under the given fence, in open, waiting and
--   spread, the reason to stop the run, the score in history, job_history, dead, job_dead and
--   running, its start deadline and its end deadline; '' for a missing value
-- Reply wrong_type: key, found, wanted

local function score(key, member) return redis.call('ZSCORE', key, member) or '' end
local reply = {'items'}
for at = 1, item_count do
  local k = item(at)
  local id, given, item_bad = k.id, k.fence, wrong_item_type(at)
  if item_bad then
    reply[#reply + 1] = item_bad
  else
    local run, job, is_first, seen = placed_by(k.run, k.job, k.open_list, id)
    reply[#reply + 1] = {'run', redis.call('EXISTS', k.run), run[1] or '', run[2] or '', run[3] or '', run[4] or '',
      run[5] or '', job[1] or '', job[2] or '', job[3] == id and 1 or 0, job[4] == id and 1 or 0, is_first and 1 or 0, seen,
      score(k.due, id), run[2] and score(k.leases, id .. '#' .. run[2]) or '',
      given ~= '' and score(k.leases, id .. '#' .. given) or '', score(k.open_list, id), score(k.waiting, id),
      score(k.catch_up, id), redis.call('HGET', k.stop_requests, id) or '', score(k.history, id), score(k.job_history, id),
      score(k.dead, id), score(k.job_dead, id), score(k.running, id), score(k.deadlines, id .. ' start'),
      score(k.deadlines, id .. ' finish')}
  end
end
return reply
