-- TokenBucket, refilled at intervals.
-- Numbers: capacity; quantum; interval, in parts of a microsecond; how many parts a microsecond has.
-- State: the balance since the last refill, that refill as (us, part), the moment of the last booking.

makers.token_bucket = function()
  local bucket = {}

  -- a / b rounded up (b > 0), exact where a division of doubles would not be.
  local function ceil_div(a, b)
    local rest = math.fmod(a, b)
    local whole = (a - rest) / b
    return rest > 0 and whole + 1 or whole
  end

  function bucket.start(numbers, now)
    return {numbers[FIRST], now, 0, 0}
  end

  function bucket.pack(head, state)
    return head .. struct.pack("<dddd", unpack(state))
  end

  function bucket.unpack(text, place)
    local level, edge_us, edge_part, booked = struct.unpack("<dddd", text, place)
    return {level, edge_us, edge_part, booked}
  end

  function bucket.shifted(_, state, by)
    return {state[1], state[2] + by, state[3], state[4] + by}
  end

  function bucket.step(numbers, state, at)
    local full, quantum, interval, parts = unpack(numbers, FIRST)
    local passed = (at - state[2]) * parts - state[3]
    if passed < interval then
      return state
    end
    local rest = math.fmod(passed, interval)
    local level = math.min(full, state[1] + (passed - rest) / interval * quantum)
    local edge_us, edge_part = minus(at, 0, math.floor(rest / parts), math.fmod(rest, parts), parts)
    return {level, edge_us, edge_part, state[4]}
  end

  -- The refill that brings the balance to `level`, or brought it there.
  local function reaches(numbers, state, level)
    local _, quantum, interval, parts = unpack(numbers, FIRST)
    local intervals = ceil_div(level - state[1], quantum)
    if math.abs(intervals) > LAST / interval then
      return intervals > 0 and math.huge or -math.huge
    end
    return state[2] + ceil_div(intervals * interval + state[3], parts)
  end

  function bucket.take(numbers, state, now, cost, max_wait, from)
    state = bucket.step(numbers, state, now)
    local asked = math.max(from, now)
    local ahead = bucket.step(numbers, state, asked)
    local at = math.max(asked, reaches(numbers, ahead, cost))
    if at - now > max_wait or at > LAST or ahead[1] - cost < -LAST then
      return nil, state
    end
    return at, {ahead[1] - cost, ahead[2], ahead[3], at}
  end

  function bucket.charge(numbers, state, now, cost)
    local full, quantum, interval, parts = unpack(numbers, FIRST)
    state = bucket.step(numbers, state, now)
    local before = ceil_div(state[3] - (now - state[2]) * parts, interval)
    local lowest = -full + before * quantum
    return {math.min(state[1], math.max(state[1] - cost, lowest)), state[2], state[3], now}
  end

  function bucket.give_back(numbers, state, now, cost, at)
    if at ~= state[4] then
      return state
    end
    state = bucket.step(numbers, state, now)
    local new = {math.min(state[1] + cost, numbers[FIRST]), state[2], state[3], at}
    local last = reaches(numbers, new, 0)
    new[4] = last > now and last or at
    return new
  end

  function bucket.forget_at(numbers, state)
    return reaches(numbers, state, numbers[FIRST])
  end

  return bucket
end
