-- TokenBucket, refilled evenly.
-- Numbers: parts of a microsecond; the time in which `cost` tokens, and the capacity, flow in, as
-- (us, part) each. State: the moment at which the bucket would be full as (us, part), the moment up to
-- which it has been looked at, the moment of the last booking, the latest that was booked.
-- Uses _ticks.lua.

makers.token_bucket_greedy = function()
  local bucket = {}

  function bucket.start(_, now)
    return {now, 0, now, 0, 0}
  end

  function bucket.pack(head, state)
    return head .. struct.pack("<ddddd", unpack(state))
  end

  function bucket.unpack(text, place)
    local full_us, full_part, edge, booked, latest = struct.unpack("<ddddd", text, place)
    return {full_us, full_part, edge, booked, latest}
  end

  function bucket.shifted(_, state, by)
    return {state[1] + by, state[2], state[3] + by, state[4] + by, state[5] + by}
  end

  function bucket.step(state, at)
    if at <= state[3] then
      return state
    end
    local full_us, full_part = later(state[1], state[2], at, 0)
    return {full_us, full_part, at, state[4], state[5]}
  end

  function bucket.take(numbers, state, now, _, max_wait, from)
    local parts, size_us, size_part, depth_us, depth_part = unpack(numbers)
    state = bucket.step(state, now)
    local at = math.max(from, now)
    local ahead = bucket.step(state, at)
    local new_us, new_part = plus(ahead[1], ahead[2], size_us, size_part, parts)
    at = math.max(at, ceil_us(minus(new_us, new_part, depth_us, depth_part, parts)))
    if at - now > max_wait or new_us > LAST then
      return nil, state
    end
    return at, {new_us, new_part, ahead[3], at, math.max(at, state[5])}
  end

  function bucket.charge(numbers, state, now)
    local parts, size_us, size_part, depth_us, depth_part = unpack(numbers)
    state = bucket.step(state, now)
    local new_us, new_part = plus(state[1], state[2], size_us, size_part, parts)
    local most_us, most_part = plus(depth_us, depth_part, depth_us, depth_part, parts)
    new_us, new_part = earlier(new_us, new_part, now + most_us, most_part)
    new_us, new_part = later(new_us, new_part, state[1], state[2])
    return {new_us, new_part, state[3], now, math.max(now, state[5])}
  end

  function bucket.give_back(numbers, state, now, _, at)
    local parts, size_us, size_part, depth_us, depth_part = unpack(numbers)
    local behind, is_last = 0, at == state[4]
    if not is_last then
      size_us, size_part = earlier(size_us, size_part, depth_us, depth_part)
      behind = state[5] - at
    end
    if at > state[5] or not is_after(size_us, size_part, behind, 0) then
      return state
    end
    state = bucket.step(state, now)
    local full_us, full_part = minus(state[1], state[2], size_us - behind, size_part, parts)
    full_us, full_part = later(full_us, full_part, state[3], 0)
    local last = ceil_us(minus(full_us, full_part, depth_us, depth_part, parts))
    return {full_us, full_part, state[3], is_last and last > now and last or state[4], state[5]}
  end

  function bucket.forget_at(_, state)
    return ceil_us(state[1], state[2])
  end

  return bucket
end
