-- TokenBucket, refilled at intervals.
-- Numbers: capacity; quantum; interval, in parts of a microsecond; how many parts a microsecond has.
-- State: the balance since the last refill, that refill as (us, part), the moment of the last booking,
-- the latest that was booked.
-- Uses _ticks.lua.

makers.token_bucket = function()
  local bucket = {}

  -- a / b rounded up (b > 0), exact where a division of doubles would not be.
  local function ceil_div(a, b)
    local rest = math.fmod(a, b)
    local whole = (a - rest) / b
    return rest > 0 and whole + 1 or whole
  end

  function bucket.start(numbers, now)
    return {numbers[1], now, 0, 0, 0}
  end

  function bucket.pack(head, state)
    return head .. struct.pack("<ddddd", unpack(state))
  end

  function bucket.unpack(text, place)
    local level, edge_us, edge_part, booked, latest = struct.unpack("<ddddd", text, place)
    return {level, edge_us, edge_part, booked, latest}
  end

  function bucket.shifted(_, state, by)
    return {state[1], state[2] + by, state[3], state[4] + by, state[5] + by}
  end

  function bucket.step(numbers, state, at)
    local full, quantum, interval, parts = unpack(numbers)
    local passed = (at - state[2]) * parts - state[3]
    if passed < interval then
      return state
    end
    local rest = math.fmod(passed, interval)
    local level = math.min(full, state[1] + (passed - rest) / interval * quantum)
    local edge_us, edge_part = minus(at, 0, math.floor(rest / parts), math.fmod(rest, parts), parts)
    return {level, edge_us, edge_part, state[4], state[5]}
  end

  -- The refill that brings the balance to `level`, or brought it there.
  local function reaches(numbers, state, level)
    local _, quantum, interval, parts = unpack(numbers)
    local intervals = ceil_div(level - state[1], quantum)
    if math.abs(intervals) > LAST / interval then
      return intervals > 0 and math.huge or -math.huge
    end
    return state[2] + ceil_div(intervals * interval + state[3], parts)
  end

  -- Which refill is the latest up to a moment, counted from the one of the state.
  local function edges(numbers, state, at)
    local _, _, interval, parts = unpack(numbers)
    return -ceil_div(state[3] - (at - state[2]) * parts, interval)
  end

  function bucket.take(numbers, state, now, cost, max_wait, from)
    state = bucket.step(numbers, state, now)
    local asked = math.max(from, now)
    local ahead = bucket.step(numbers, state, asked)
    local at = math.max(asked, reaches(numbers, ahead, cost))
    if at - now > max_wait or at > LAST or ahead[1] - cost < -LAST then
      return nil, state
    end
    return at, {ahead[1] - cost, ahead[2], ahead[3], at, math.max(at, state[5])}
  end

  function bucket.charge(numbers, state, now, cost)
    local full, quantum, interval, parts = unpack(numbers)
    state = bucket.step(numbers, state, now)
    local before = ceil_div(state[3] - (now - state[2]) * parts, interval)
    local lowest = -full + before * quantum
    local level = math.min(state[1], math.max(state[1] - cost, lowest))
    return {level, state[2], state[3], now, math.max(now, state[5])}
  end

  function bucket.give_back(numbers, state, now, cost, at)
    local full, quantum = unpack(numbers)
    local is_last = at == state[4]
    local stepped = bucket.step(numbers, state, now)
    if at > state[5] then
      return state
    end
    if not is_last then
      cost = math.min(cost, full) - (edges(numbers, stepped, state[5]) - edges(numbers, stepped, at)) * quantum
    end
    if cost <= 0 then
      return state
    end
    local new = {math.min(stepped[1] + cost, full), stepped[2], stepped[3], state[4], state[5]}
    local last = is_last and reaches(numbers, new, 0) or 0
    new[4] = last > now and last or state[4]
    return new
  end

  function bucket.forget_at(numbers, state)
    return reaches(numbers, state, numbers[1])
  end

  return bucket
end
