-- The checks of a request: read, decided, answered.

local next_argument = 4

-- Most limits have 8 numbers at most; the others come one by one.
local function read_check()
  local place = next_argument
  local packed, kind, head = ARGV[place], ARGV[place + 1], ARGV[place + 2]
  local key, cost, max_wait, shadow, adopts, behind = struct.unpack("<ddddd", packed)
  local numbers = {struct.unpack("<dddddddd", packed, behind)}
  for number = 9, #packed / 8 - 5 do
    numbers[number] = struct.unpack("<d", packed, behind + 8 * number - 8)
  end
  local check = {
    key = key, cost = cost, max_wait = max_wait, shadow = shadow == 1,
    numbers = numbers, algorithm = the(kind), head = head,
    state = nil, at = nil, before = nil, told = nil,
  }
  next_argument = place + 3
  if adopts == 1 then
    check.foreign, check.adopted = ARGV[place + 3], ARGV[place + 4]
    next_argument = place + 5
  end
  return check
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

-- The moment that a check gets from a state, or nil; and the state after that.
local function ask(check, state, now, max_wait, from)
  local numbers = check.numbers
  local at, new, told = check.algorithm.take(numbers, state, now, check.cost, max_wait, from)
  check.at, check.before, check.told = at, state, told
  return at, new
end

local function take_one(check, now)
  local numbers = check.numbers
  local wait = check.shadow and 0 or check.max_wait
  local at, new = ask(check, check.state, now, wait, 0)
  -- Most states say the same later on; where one does not, a refusal is kept as well.
  local counted = check.algorithm.counted
  if at or check.adopts or (counted and bucket_of(check).entry and counted(check.state, new)) then
    keep(check, new)
  end
  return at ~= nil, now
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
