#!lua flags=allow-oom
-- Removes jobs without a planned run, and without a later run, from the index of jobs by first
-- gate.
-- Guard: the job has ended, its only run was claimed, or it does not exist. At most 1,000 jobs a
-- call.
-- Keys: job_gates
-- Keys of each item: job
-- Args of each item: gate_entry (the job's entry in the index)
-- Reply unlisted: the number of removed jobs
-- Reply wrong_type: key, found, wanted

local unlisted = 0
for at = 1, item_count do
  local k = item(at)
  if not wrong_item_type(at) then
    local found = redis.call('HMGET', k.job, 'once', 'pending', 'paused_run', 'ended', 'gate_entry')
    if found[4] or not found[1] or found[1] == '1' and (found[2] or '') == '' and not found[3] then
      unlisted = unlisted + redis.call('ZREM', k.job_gates, k.gate_entry)
      if found[5] then redis.call('HDEL', k.job, 'gate_entry') end
    end
  end
end
return {'unlisted', unlisted}
