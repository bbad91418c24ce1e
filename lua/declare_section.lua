#!lua
-- Writes the settings that a file declares for a queue or a group, or withdraws them if the file no
-- longer declares the section.
-- Redis itself refuses this script when memory is full, because the script only adds data.
-- Guard: the section in this file changed since its last call, or the settings that the call wrote
-- are gone.
-- A changed section replaces settings made by hand. The same section in another file does not,
-- because nobody edited it.
-- A pause by hand is never lifted, and settings by hand are kept when no file declares the section
-- any more.
-- A repeated call changes nothing.
-- If the section in force is withdrawn while other files declare a different text, those files are
-- applied again.
-- Keys: settings:hash (of the queue or group), declared (the sections of this file), index:hash (of
--   queues or groups), nudge, gate_timers
-- Args: now, name, entry (the field of this section in `declared`), hash (of the section's text in
--   the file, or '' if the file does not declare the section), source_name (of the file), shown
--   (the value of the section in the index; '' for none), paused (1 if the file pauses the queue or
--   group, else 0), mode (say (write the settings), or look (reply with the effect, without
--   writing))
-- Args of each item: field (of settings), value ('' for none)
-- Reply declared
-- Reply unchanged: this file or another declared the same text before
-- Reply withdrawn: no file declares the section any more
-- Reply kept: another file declares the section, or it was set by hand
-- Reply wrong_type: key, found, wanted

local settings, declared, index = k.settings, k.declared, k.index
local own = 'src:' .. source_name
local stored = redis.call('HMGET', settings, own, 'set_at', 'paused', 'paused_in', 'source')
local function show()
  if shown == '' then redis.call('HDEL', index, name) else redis.call('HSET', index, name, shown) end
end

-- Has the gate of the group checked again, because the settings of the group changed.
local function wake_group()
  local group = string.match(entry, '^group (.+)$')
  if not group then return end
  redis.call('ZADD', k.gate_timers, 'LT', now, 'group:' .. group)
  wake_nodes(k.nudge, 'due')
end

-- Returns the fields of other files in the settings, and the name of a file that declared `text`,
-- or nil.
local function others_of(text)
  local others, sayer = {}, nil
  for _, field in ipairs(redis.call('HKEYS', settings)) do
    if string.sub(field, 1, 4) == 'src:' and field ~= own then
      others[#others + 1] = field
      if text and redis.call('HGET', settings, field) == text then sayer = string.sub(field, 5) end
    end
  end
  return others, sayer
end

if hash == '' then
  local others, sayer = others_of(stored[1])
  local is_kept = stored[2] or stored[3] and stored[4] == 'hand' or others[1]
  if is_kept then
    if sayer and stored[5] == source_name then
      redis.call('HSET', settings, 'source', sayer)
    elseif stored[1] and stored[5] == source_name and not stored[2] then
      for _, field in ipairs(others) do redis.call('HSET', settings, field, '') end
      wake_nodes(k.nudge, 'files')
    end
    redis.call('HDEL', settings, own)
  else
    redis.call('DEL', settings)
    show()
    wake_nodes(k.nudge, 'pools')
    wake_group()
  end
  redis.call('HDEL', declared, entry)
  return {is_kept and 'kept' or 'withdrawn'}
end

if stored[1] == hash and redis.call('HGET', declared, entry) == hash then return {'unchanged'} end
-- The settings in force come from this text or a copy of it, so changes by hand after that are
-- kept.
local text = stored[5] and redis.call('HGET', settings, 'src:' .. stored[5])
local _, sayer = others_of(hash)
if sayer and (text == hash or not stored[1] and stored[2]) then
  if mode == 'say' then
    redis.call('HSET', settings, own, hash)
    redis.call('HSET', declared, entry, hash)
  end
  return {'unchanged'}
end
if mode == 'look' then return {'declared'} end
redis.call('HDEL', settings, 'set_at', 'set_by', 'concurrency_by')
for at = 1, item_count do
  local k = item(at)
  if k.value == '' then
    redis.call('HDEL', settings, k.field)
  else
    redis.call('HSET', settings, k.field, k.value)
    if k.field == 'concurrency' then redis.call('HSET', settings, 'concurrency_of_file', k.value) end
  end
end
if paused == '1' then
  if not stored[3] then redis.call('HSET', settings, 'paused', int(now), 'paused_in', 'file', 'paused_by', 'file of ' .. source_name) end
elseif stored[3] and stored[4] ~= 'hand' then
  redis.call('HDEL', settings, 'paused', 'paused_in', 'paused_by')
end
redis.call('HSET', settings, own, hash, 'source', source_name)
show()
redis.call('HSET', declared, entry, hash)
wake_nodes(k.nudge, 'pools')
wake_group()
return {'declared'}
