-- WarmUpWindow: a sliding window whose limit warms up.
-- Numbers: those of the window; cold factor as numerator and denominator; most cold (thousandths of a
-- permit); limit when cold. State: index of the period, cold left, permits passed in that period, the most
-- that the window held in it, the window's own state. It tells retry, remaining and reset itself.
-- Uses _product.lua.

makers.warm_up_window = function()
  local warm_up, window = {}, the("sliding_window")
  local MILLI = 1000

  local function period_of(numbers, at)
    local period = numbers[2]
    return (at - math.fmod(at, period)) / period
  end

  local function limit_at(numbers, cold)
    local limit, _, _, top, bottom, full_cold = unpack(numbers)
    if cold == 0 then
      return limit
    end
    local warm = full_cold * bottom
    return math.max(1, product_over(limit, warm, warm + cold * (top - bottom)))
  end

  -- The cold left in a period, if nobody comes until then.
  local function cold_in(numbers, state, index)
    local limit, _, _, _, _, full_cold, cold_limit = unpack(numbers)
    local cold, quiet = state.cold, limit * MILLI
    if index <= state.index then
      return cold
    end
    if state.peak < cold_limit then
      cold = math.min(full_cold, cold + quiet)
    end
    cold = math.max(0, cold - state.passed * MILLI)
    return math.min(full_cold, cold + (index - state.index - 1) * quiet)
  end

  local function of(index, cold, passed, peak, window_state)
    return {index = index, cold = cold, passed = passed, peak = peak, window = window_state}
  end

  function warm_up.start(numbers, now)
    return of(period_of(numbers, now), numbers[6], 0, 0, window.start())
  end

  local function own_text(state)
    return struct.pack("<dddd", state.index, state.cold, state.passed, state.peak)
  end

  function warm_up.pack(head, state)
    return window.pack(head .. own_text(state), state.window)
  end

  function warm_up.unpack(text, place)
    local index, cold, passed, peak, behind = struct.unpack("<dddd", text, place)
    return of(index, cold, passed, peak, window.unpack(text, behind))
  end

  function warm_up.shifted(numbers, state, by, now)
    local index = math.min(state.index, period_of(numbers, now))
    return of(index, state.cold, state.passed, state.peak, window.shifted(numbers, state.window, by))
  end

  function warm_up.patch(text, place, state)
    local own = own_text(state)
    local header, added = window.patch(text, place + #own, state.window)
    return header and own .. header, added
  end

  function warm_up.step(numbers, state, now)
    local stepped, index = window.step(numbers, state.window, now), period_of(numbers, now)
    if index <= state.index then
      return of(state.index, state.cold, state.passed, state.peak, stepped)
    end
    return of(index, cold_in(numbers, state, index), 0, 0, stepped)
  end

  -- The booking at the first moment from `from` on, if nobody else comes: nil or the moment, the window.
  local function first_booking(numbers, state, now, cost, from)
    local period = numbers[2]
    local first = math.max(state.index, period_of(numbers, from))
    local index = first
    while true do
      if not (index <= 2 * LAST) then
        error("a broken entry", 0) -- there is no end to look for
      end
      local limit = limit_at(numbers, cold_in(numbers, state, index))
      local at, new, _, remaining, reset =
        window.take_within(limit, numbers, state.window, now, cost, math.huge, from)
      local reached = period_of(numbers, at or now)
      if (index > first and not at) or (at and reached <= index) then
        return at, new, remaining, reset
      end
      index = index == first and index + 1 or reached
      from = math.max(from, index * period)
    end
  end

  local function next_wait(numbers, state, now)
    return (first_booking(numbers, state, now, 1, now) or now) - now
  end

  local function grant(numbers, state, now, cost, at, new, remaining, reset)
    local peak = math.max(state.peak, new.used)
    state = of(state.index, state.cold, state.passed + cost, peak, new)
    if remaining == 0 then
      reset = next_wait(numbers, state, now)
    end
    return at, state, struct.pack("<ddd", 0, remaining, reset)
  end

  local function refuse(numbers, state, now, retry, next_permit)
    local remaining = math.max(0, limit_at(numbers, state.cold) - state.window.used)
    local reset
    if remaining > 0 then
      reset = math.max(0, window.forget_at(numbers, state.window) - now)
    else
      reset = next_permit or next_wait(numbers, state, now)
    end
    return nil, state, struct.pack("<ddd", retry, remaining, reset)
  end

  function warm_up.take(numbers, state, now, cost, max_wait, from)
    state = warm_up.step(numbers, state, now)
    if from <= now then
      local limit = limit_at(numbers, state.cold)
      local at, new, _, remaining, reset =
        window.take_within(limit, numbers, state.window, now, cost, 0, now)
      if at then
        return grant(numbers, state, now, cost, at, new, remaining, reset)
      end
    end
    local at, new, remaining, reset = first_booking(numbers, state, now, cost, math.max(from, now))
    if not at then
      return refuse(numbers, state, now, -1)
    end
    if at - now > max_wait then
      local next_permit = cost == 1 and from <= now and at - now or nil
      return refuse(numbers, state, now, at - now - max_wait, next_permit)
    end
    return grant(numbers, state, now, cost, at, new, remaining, reset)
  end

  function warm_up.with_room(numbers, state, now, cost)
    state = warm_up.step(numbers, state, now)
    local new = window.without_oldest(state.window, state.window.used + cost - numbers[1])
    return of(state.index, state.cold, state.passed, state.peak, new)
  end

  function warm_up.charge(numbers, state, now, cost)
    state = warm_up.step(numbers, state, now)
    local new = window.charge(numbers, state.window, now, cost)
    local passed = state.passed + new.used - state.window.used
    return of(state.index, state.cold, passed, math.max(state.peak, new.used), new)
  end

  function warm_up.give_back(numbers, state, now, cost, at)
    state = warm_up.step(numbers, state, now)
    local new = window.give_back(numbers, state.window, now, cost, at)
    local back = period_of(numbers, at) >= state.index and state.window.used - new.used or 0
    local passed, peak = math.max(0, state.passed - back), math.max(0, state.peak - back)
    return of(state.index, state.cold, passed, peak, new)
  end

  function warm_up.forget_at(numbers, state)
    local limit, period, _, _, _, full_cold = unpack(numbers)
    local empty = window.forget_at(numbers, state.window)
    local index = state.index + 1
    local missing = full_cold - cold_in(numbers, state, index)
    if missing == 0 then
      return empty
    end
    return math.max(empty, (index + math.ceil(missing / (limit * MILLI))) * period)
  end

  return warm_up
end
