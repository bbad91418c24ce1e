#!lua flags=allow-oom
-- Replaces the mark of a request with an idempotency key by the answer, or by nothing, or renews it.
-- A mark that ended is written again: the request is still under way, and no other request began.
-- Guard: the key has no mark of another request.
-- Keys: answer:string
-- Args: own_mark, successor (the mark itself, the answer, or '' for nothing), lifetime_ms
-- Reply replaced
-- Reply another
-- Reply wrong_type: key, found, wanted

local found = redis.call('GET', k.answer)
if found and found ~= own_mark then return {'another'} end
if successor == '' then
  redis.call('DEL', k.answer)
else
  redis.call('SET', k.answer, successor, 'PX', lifetime_ms)
end
return {'replaced'}
