-- GCRA: the theoretical arrival time (TAT) is the moment at which the bucket would be full again.
-- Numbers: parts of a microsecond; the time of `cost` permits and of the burst, as (us, part); whether
-- the burst holds `cost`. State: TAT as (us, part), moment of the last booking, the latest that was
-- booked.
-- Uses _ticks.lua.

makers.gcra = function()
  local gcra = {}

  function gcra.start(_, now)
    return {now, 0, 0, 0}
  end

  function gcra.pack(head, state)
    return head .. struct.pack("<dddd", unpack(state))
  end

  function gcra.unpack(packed, place)
    local tat_us, tat_part, last, latest = struct.unpack("<dddd", packed, place)
    return {tat_us, tat_part, last, latest}
  end

  function gcra.shifted(_, state, by)
    return {state[1] + by, state[2], state[3] + by, state[4] + by}
  end

  function gcra.take(numbers, state, now, _, max_wait, from)
    local parts, size_us, size_part, depth_us, depth_part, fits = unpack(numbers)
    local at = math.max(from, now)
    local new_us, new_part = later(state[1], state[2], at, 0)
    new_us, new_part = plus(new_us, new_part, size_us, size_part, parts)
    local due_us, due_part = minus(new_us, new_part, depth_us, depth_part, parts)
    if is_after(due_us, due_part, at, 0) then
      at = ceil_us(due_us, due_part)
    end
    if fits == 0 or at - now > max_wait or new_us > LAST then
      return nil, state
    end
    return at, {new_us, new_part, at, math.max(at, state[4])}
  end

  function gcra.charge(numbers, state, now)
    local parts, size_us, size_part, depth_us, depth_part = unpack(numbers)
    local base_us, base_part = later(state[1], state[2], now, 0)
    local new_us, new_part = plus(base_us, base_part, size_us, size_part, parts)
    local most_us, most_part = plus(depth_us, depth_part, depth_us, depth_part, parts)
    new_us, new_part = earlier(new_us, new_part, now + most_us, most_part)
    new_us, new_part = later(new_us, new_part, base_us, base_part)
    return {new_us, new_part, now, math.max(now, state[4])}
  end

  function gcra.give_back(numbers, state, now, _, at)
    local parts, size_us, size_part, depth_us, depth_part = unpack(numbers)
    local tat_us, tat_part, last, latest = unpack(state)
    local due = ceil_us(minus(tat_us, tat_part, depth_us, depth_part, parts))
    local is_last = at == last or (now < at and at == due)
    local behind = is_last and 0 or latest - at
    if behind < 0 or not is_after(size_us, size_part, behind, 0) or not is_after(tat_us, tat_part, now, 0) then
      return state
    end
    tat_us, tat_part = minus(tat_us, tat_part, size_us - behind, size_part, parts)
    tat_us, tat_part = later(tat_us, tat_part, math.min(at, now), 0)
    return {tat_us, tat_part, last, latest}
  end

  function gcra.forget_at(_, state)
    return ceil_us(state[1], state[2])
  end

  return gcra
end
