-- What a call does. Entries are read once and written once, at the end: until then nothing has happened.

local MAX_ROUNDS = 8
local buckets = {}
local objects = false -- the server lets nobody read, whatever the bucket

local function the_time()
  if ARGV[1] ~= "" then
    return (struct.unpack("<d", ARGV[1]))
  end
  local seconds, us = unpack(redis.call("TIME"))
  return seconds * 1000000 + us
end


local next_argument = 4

local function argument()
  next_argument = next_argument + 1
  return ARGV[next_argument - 1]
end

-- Most limits have 8 numbers at most; the others come one by one.
local function read_numbers(packed)
  local numbers = {struct.unpack("<ddddddddddddd", packed)}
  for place = FIRST + 8, #packed / 8 do
    numbers[place] = struct.unpack("<d", packed, 8 * place - 7)
  end
  return numbers
end

local function read_check()
  local check = {numbers = read_numbers(argument())}
  check.algorithm, check.head = the(argument()), argument()
  if check.numbers[ADOPTS] == 1 then
    check.foreign, check.adopted = argument(), argument()
  end
  return check
end

local function bucket_of(check)
  local key = check.numbers[KEY]
  local bucket = buckets[key]
  if not bucket then
    local entry = redis.pcall("GET", KEYS[key])
    if type(entry) == "table" then
      objects = objects or not entry.err:find("WRONGTYPE", 1, true)
      error(entry.err, 0)
    end
    bucket = {entry = entry}
    buckets[key] = bucket
  end
  return bucket
end

local function entry_of(bucket, now)
  if bucket.is_new then
    return bucket.check.algorithm.pack(bucket.head .. struct.pack("<d", now), bucket.state)
  end
  return bucket.entry
end

local function keep(check, state)
  local bucket = buckets[check.numbers[KEY]]
  bucket.head, bucket.state, bucket.check, bucket.is_new = check.head, state, check, true
end

-- The state that stands in a text behind the moment it was written. If the clock has gone back since then
-- (another server, an operator), the state goes back with it, for good: the time between counts for nobody.
local function read_state(check, text, place, now)
  local wrote, begins = struct.unpack("<d", text, place)
  local state = check.algorithm.unpack(text, begins)
  if wrote > now then
    state = check.algorithm.shifted(check.numbers, state, now - wrote, now)
    keep(check, state)
  end
  return state
end

-- The bucket's state in the check's own numbers; nil for a foreign entry that the client has to adopt.
local function load(check, now)
  local bucket = bucket_of(check)
  if bucket.head == check.head then
    return bucket.state
  end
  local entry = entry_of(bucket, now)
  if not entry then
    return check.algorithm.start(check.numbers, now)
  end
  local size = #check.head
  if entry:sub(1, size) == check.head then
    bucket.read_as = not bucket.is_new and check.head
    bucket.head, bucket.state = check.head, read_state(check, entry, size + 1, now)
    return bucket.state
  end
  if entry == check.foreign then
    check.adopts = true
    return read_state(check, check.adopted, 1, now)
  end
  return nil
end

-- Change as little of an entry as can be: true if that was possible.
local function patched(key, bucket, ttl, now)
  local patch = bucket.check.algorithm.patch
  if not patch or bucket.head ~= bucket.read_as then
    return false
  end
  local header, added = patch(bucket.entry, #bucket.head + 9, bucket.state)
  if not header then
    return false
  end
  redis.call("SETRANGE", key, #bucket.head, struct.pack("<d", now) .. header)
  if added ~= "" then
    redis.call("APPEND", key, added)
  end
  redis.call("PEXPIRE", key, ttl)
  return true
end

-- Write what has changed, each entry with a time to live; a time for tests stands while keys grow old.
local function write(now)
  local grace = ARGV[1] == "" and 1 or 60000
  for index, bucket in pairs(buckets) do
    if bucket.is_new then
      local check = bucket.check
      local forget_at = check.algorithm.forget_at(check.numbers, bucket.state)
      local left = math.min(forget_at, LAST) - now
      local ttl = ("%.0f"):format(math.max(0, math.ceil(left / 1000)) + grace)
      if left <= 0 and grace == 1 then
        if bucket.entry then
          redis.call("DEL", KEYS[index])
        end
      elseif not patched(KEYS[index], bucket, ttl, now) then
        redis.call("SET", KEYS[index], entry_of(bucket, now), "PX", ttl)
      end
    end
  end
end

-- Take on top of what this attempt has taken already (two checks may share a bucket).
local function take(attempt, check, now, max_wait, from)
  local numbers = check.numbers
  local held = attempt[numbers[KEY]]
  local shares = held and held.check.head == check.head and held.check.algorithm == check.algorithm
  local state = shares and held.state or check.state
  local at, new, told = check.algorithm.take(numbers, state, now, numbers[COST], max_wait, from)
  check.at, check.before, check.told = at, state, told
  if at or numbers[SHADOW] == 0 then
    attempt[numbers[KEY]] = {check = check, state = new}
  end
  return at, new
end

-- Several checks with one start time, all or nothing.
function makers.together()
  -- Search the common start time, from `asked` on: ask each at t, take the largest moment asked for, repeat.
  local function book(checks, now, asked)
    local max_wait = 0
    for _, check in ipairs(checks) do
      local wait = check.numbers[MAX_WAIT]
      if wait ~= 0 and (max_wait == 0 or wait < max_wait) then
        max_wait = wait
      end
    end
    local start = asked
    local attempt, all
    for _ = 1, MAX_ROUNDS do
      start, attempt, all = asked, {}, true
      for _, check in ipairs(checks) do
        local waits = check.numbers[MAX_WAIT] ~= 0
        local at = take(attempt, check, now, waits and max_wait or start - now, start)
        all = all and at
        if at and waits then
          asked = math.max(asked, at)
        end
      end
      if asked <= start then
        break
      end
    end
    if all and asked <= start then
      return attempt, start
    end
    return nil, start
  end

  local function take_together(checks, now, from)
    local enforcing, shadows = {}, {}
    for _, check in ipairs(checks) do
      table.insert(check.numbers[SHADOW] == 1 and shadows or enforcing, check)
    end
    local booked, start = book(enforcing, now, from)
    local alone = booked or {}
    for _, check in ipairs(shadows) do
      take(alone, check, now, 0, now)
    end
    for _, held in pairs(alone) do
      keep(held.check, held.state)
    end
    return booked ~= nil, start
  end

  return take_together
end

local function take_one(check, now)
  local numbers = check.numbers
  local wait = numbers[SHADOW] == 1 and 0 or numbers[MAX_WAIT]
  local at, new = take({}, check, now, wait, 0)
  -- Most states say the same later on; where one does not, a refusal is kept as well.
  local counted = check.algorithm.counted
  if at or check.adopts or (counted and bucket_of(check).entry and counted(check.state, new)) then
    keep(check, new)
  end
  return at ~= nil, now
end

-- What stands in the way of an answer: {-2} if the client does not know the calendar of this moment, or
-- {-1, number of the check, foreign entry, ...}; nil if there is nothing.
local function obstacles(checks, now)
  local reply
  for place, check in ipairs(checks) do
    local knows = check.algorithm.knows
    if knows and not knows(check.numbers, now) then
      return {-2}
    end
    check.state = load(check, now)
    if not check.state then
      reply = reply or {-1}
      table.insert(reply, place)
      table.insert(reply, entry_of(bucket_of(check), now))
    end
  end
  return reply
end

local function answer(checks, granted, start)
  local reply = {granted and 1 or 0, start}
  for _, check in ipairs(checks) do
    table.insert(reply, check.at or -1)
    table.insert(reply, check.told or check.algorithm.pack("", check.before))
  end
  return reply
end

local function take_request(checks, now)
  local obstacle = obstacles(checks, now)
  if obstacle then
    return obstacle
  end
  if #checks == 1 then
    return answer(checks, take_one(checks[1], now))
  end
  return answer(checks, the("together")(checks, now, now))
end

-- What the work answers, or {-3, why} if a bucket cannot be read (a key of another type, a broken entry): those
-- who share the call have done nothing to it. What the server objects to is for all of them.
local function attempt_of(work, ...)
  local went, reply = pcall(work, ...)
  if went then
    return reply
  end
  if objects then
    error(reply, 0)
  end
  return {-3, tostring(reply)}
end

-- Each request all or nothing on its own; the argument says how many checks each has.
local function take_all(sizes, now)
  local reply = {now}
  for position = 1, #sizes do
    local size = sizes:byte(position)
    local checks = {}
    for place = 1, size do
      checks[place] = read_check()
    end
    table.insert(reply, attempt_of(take_request, checks, now))
  end
  return reply
end

-- What is asked less often.
function makers.actions()
  local actions = {}

  -- One request that starts after a wait at the soonest, since it waits for its buckets on other servers.
  function actions.take_later(detail, now)
    local checks, wait = {}, struct.unpack("<d", detail, 2)
    for place = 1, detail:byte() do
      checks[place] = read_check()
    end
    local obstacle = obstacles(checks, now)
    return obstacle or answer(checks, the("together")(checks, now, now + wait))
  end

  function actions.peek(_, now)
    local check = read_check()
    local obstacle = obstacles({check}, now)
    if obstacle then
      return obstacle
    end
    local granted = take({}, check, now, 0, 0) ~= nil
    return answer({check}, granted, now)
  end

  function actions.charge(_, now)
    local check = read_check()
    local obstacle = obstacles({check}, now)
    if not obstacle then
      keep(check, check.algorithm.charge(check.numbers, check.state, now, check.numbers[COST]))
    end
    return obstacle or {1}
  end

  function actions.give_back(packed_moment, now)
    local check = read_check()
    if not bucket_of(check).entry then
      return {0}
    end
    local obstacle = obstacles({check}, now)
    if not obstacle then
      local numbers, at = check.numbers, struct.unpack("<d", packed_moment)
      keep(check, check.algorithm.give_back(numbers, check.state, now, numbers[COST], at))
    end
    return obstacle or {1}
  end

  -- Only slots have a lease.
  function actions.renew(packed_moment, now)
    local check = read_check()
    local obstacle = obstacles({check}, now)
    local renew = check.algorithm.renew
    if not obstacle and renew then
      local numbers, at = check.numbers, struct.unpack("<d", packed_moment)
      keep(check, renew(numbers, check.state, now, numbers[COST], at))
    end
    return obstacle or {1}
  end

  return actions
end

local now = the_time()
local reply
if ARGV[2] == "take" then
  reply = take_all(ARGV[3], now)
else
  reply = {now, attempt_of(the("actions")[ARGV[2]], ARGV[3], now)}
end
write(now)
return reply
