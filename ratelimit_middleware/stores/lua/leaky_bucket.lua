-- LeakyBucket: a queue that drains at a steady rate.
-- Numbers: parts of a microsecond; the time in which `cost` permits, a full bucket, and what goes at once
-- drain, as (us, part) each. State: the moment at which the bucket will have drained as (us, part), and
-- the moment of the last booking, and the latest that was booked.
-- Uses _ticks.lua.

makers.leaky_bucket = function()
  local bucket = {}

  function bucket.start(_, now)
    return {now, 0, 0, 0}
  end

  function bucket.pack(head, state)
    return head .. struct.pack("<dddd", unpack(state))
  end

  function bucket.unpack(text, place)
    local drained_us, drained_part, booked, latest = struct.unpack("<dddd", text, place)
    return {drained_us, drained_part, booked, latest}
  end

  function bucket.shifted(_, state, by)
    return {state[1] + by, state[2], state[3] + by, state[4] + by}
  end

  function bucket.take(numbers, state, now, _, max_wait, from)
    local parts, size_us, size_part, depth_us, depth_part, once_us, once_part = unpack(numbers)
    local asked = math.max(from, now)
    local new_us, new_part = later(state[1], state[2], asked, 0)
    new_us, new_part = plus(new_us, new_part, size_us, size_part, parts)
    local at = math.max(asked, ceil_us(minus(new_us, new_part, once_us, once_part, parts)))
    local late_us, late_part = minus(new_us, new_part, depth_us, depth_part, parts)
    if is_after(late_us, late_part, asked, 0) or at - now > max_wait or new_us > LAST then
      return nil, state
    end
    return at, {new_us, new_part, at, math.max(at, state[4])}
  end

  function bucket.charge(numbers, state, now)
    local parts, size_us, size_part, depth_us, depth_part = unpack(numbers)
    local base_us, base_part = later(state[1], state[2], now, 0)
    local new_us, new_part = plus(base_us, base_part, size_us, size_part, parts)
    local most_us, most_part = plus(depth_us, depth_part, depth_us, depth_part, parts)
    new_us, new_part = earlier(new_us, new_part, now + most_us, most_part)
    new_us, new_part = later(new_us, new_part, base_us, base_part)
    return {new_us, new_part, now, math.max(now, state[4])}
  end

  function bucket.give_back(numbers, state, now, _, at)
    local parts, size_us, size_part, _, _, once_us, once_part = unpack(numbers)
    local drained_us, drained_part, booked, latest = unpack(state)
    local behind, is_last = 0, at == booked
    if not is_last then
      size_us, size_part = earlier(size_us, size_part, once_us, once_part)
      behind = latest - at
    end
    if at > latest or not is_after(size_us, size_part, behind, 0) then
      return state
    end
    drained_us, drained_part = minus(drained_us, drained_part, size_us - behind, size_part, parts)
    local turn = ceil_us(minus(drained_us, drained_part, once_us, once_part, parts))
    return {drained_us, drained_part, is_last and turn > now and turn or booked, latest}
  end

  function bucket.forget_at(_, state)
    return ceil_us(state[1], state[2])
  end

  return bucket
end
