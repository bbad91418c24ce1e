-- The prelude of every script: the clock, the type checks, and the steps that several scripts
-- share.
-- A script reads the clock once, and checks the types of its keys before it writes.
-- Numbers of more than 14 digits are written with int(), because Lua 5.1 would round them to 14
-- digits.

-- The score in `jobs` of a job that has no next due time: the first instant (ms) past the range of
-- schedules.
local PARKED = 4102444800000

-- The largest count, so that Rust can read each count as a u32; and the largest fence.
local COUNT, FENCE = 2147483646, 9007199254740991

-- The most entries that the quarantine keeps.
local QUARANTINE = 10000

local function int(number) return string.format('%.0f', number) end

-- Returns `text` as a whole number, or 0 if it is not a number or is larger than `most`. A field
-- with a bad value must not stop a script between two writes.
local function whole(text, most)
  local number = math.floor(tonumber(text or '') or 0)
  if number >= 0 and number <= most then return number end
  return 0
end

-- Returns the time of Redis in milliseconds and in microseconds, or the time `given` by a test. A
-- script calls this function once.
local function clock(given)
  if given ~= '' then return tonumber(given), tonumber(given) * 1000 end
  local time = redis.call('TIME')
  local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
  return math.floor(micros / 1000), micros
end

-- Returns the reply for the first key of a wrong type, or nil if every key is absent or has its
-- type.
-- `keys` is a list of pairs: key, type.
local function wrong_type(keys)
  for at = 1, #keys, 2 do
    local found = redis.call('TYPE', keys[at]).ok
    if found ~= 'none' and found ~= keys[at + 1] then return {'wrong_type', keys[at], found, keys[at + 1]} end
  end
end

-- The counters in the key of the nudges, each of 32 bits: what changed, and the place of its counter.
local CHANGES_COUNTED = {due = 0, lanes = 1, pools = 2, stop = 3, files = 4, notices = 5, jobs = 6, deadlines = 7, chains = 8}

-- The place of the counter of changes after which no lane has an earlier first run. The counters of
-- the parts of lanes follow. A lane belongs to one of PARTS parts.
local STILL, PARTS = 9, 128

-- Returns the place of the counter for the lane of `due`, a due set.
local function place_of_lane(due)
  local hash = 0
  for at = string.find(due, '}:due:', 1, true) + 6, #due do hash = (hash * 31 + string.byte(due, at)) % 65521 end
  return STILL + 1 + hash % PARTS
end

-- Counts a change. Each node reads the counters once a second, so it also sees a change whose
-- message was lost, or that has no message. A key of another type must not stop the step that is
-- counted; nodes then read everything at each poll.
-- `due` is the due set that may have an earlier first run now. It is false if no due set has, and nil
-- if any may have. A node with many lanes then reads those lanes only.
local function count_change(channel, word, due)
  local kind = '#' .. CHANGES_COUNTED[word]
  if due == nil then
    redis.pcall('BITFIELD', channel, 'INCRBY', 'u32', kind, 1)
  else
    local place = due and place_of_lane(due) or STILL
    redis.pcall('BITFIELD', channel, 'INCRBY', 'u32', kind, 1, 'INCRBY', 'u32', '#' .. place, 1)
  end
end

-- Wakes the nodes because of a change. The channel and the key with the counters have one name. A user
-- without the right to the channel must not stop the step; nodes then see the counter.
local function wake_nodes(channel, word, due)
  count_change(channel, word, due)
  redis.pcall('SPUBLISH', channel, word)
end

-- Wakes the nodes if `id`, just added to `due`, is the first run there. They would otherwise sleep
-- until the ready time of the former first run.
local function nudge_if_head(channel, due, id)
  if redis.call('ZRANGE', due, 0, 0)[1] == id then wake_nodes(channel, 'due', due) end
end

-- Adds `by` to the counter `word`. A counter with a bad or negative value starts again at `by`,
-- because a bad counter must not stop the step that is counted.
local function add_to_counter(counters, word, by)
  local total = redis.pcall('HINCRBY', counters, word, by)
  if type(total) == 'table' or total < 0 then redis.call('HSET', counters, word, math.max(by, 0)) end
end

-- Appends to `fields` the pairs of `more` whose values are not empty, and returns `fields`. A field of
-- a job's record with an empty value is absent.
local function add_filled(fields, more)
  for at = 1, #more, 2 do
    if more[at + 1] ~= '' then fields[#fields + 1], fields[#fields + 2] = more[at], more[at + 1] end
  end
  return fields
end
