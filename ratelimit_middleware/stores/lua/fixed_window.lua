-- FixedWindow: a count in each window of a grid.
-- Numbers: limit; period (us), or 0 for windows of a calendar, and then six borders around the present:
-- of the window before, of this one, and of the three behind it.
-- State: start and end of the window, permits taken in it, permits booked in the next.

makers.fixed_window = function()
  local fixed = {}

  -- The window around a moment; nil outside of the borders known.
  local function window(numbers, at)
    local period = numbers[2]
    if period > 0 then
      local start = at - math.fmod(at, period)
      return start, start + period
    end
    for place = 3, 7 do
      if numbers[place] <= at and at < numbers[place + 1] then
        return numbers[place], numbers[place + 1]
      end
    end
    return nil
  end

  local function window_end(numbers, at)
    return select(2, window(numbers, at))
  end

  local function debt(numbers, used)
    return math.min(math.max(0, used - numbers[1]), numbers[1])
  end

  -- Whether the borders are those around `now`.
  function fixed.knows(numbers, now)
    return numbers[2] > 0 or (numbers[4] <= now and now < numbers[5])
  end

  function fixed.start(numbers, now)
    local start, stop = window(numbers, now)
    return {start, stop, 0, 0}
  end

  function fixed.pack(head, state)
    return head .. struct.pack("<dddd", unpack(state))
  end

  function fixed.unpack(text, place)
    local start, stop, used, booked = struct.unpack("<dddd", text, place)
    return {start, stop, used, booked}
  end

  -- A window that has not begun any more: what was taken in it counts in the present one.
  function fixed.shifted(numbers, state, _, now)
    if state[1] <= now then
      return state
    end
    local start, stop = window(numbers, now)
    return {start, stop, state[3], state[4]}
  end

  function fixed.step(numbers, state, now)
    local _, stop, used, booked = unpack(state)
    if now < stop then
      return state
    end
    local new_start, new_stop = window(numbers, now)
    local following = window_end(numbers, stop)
    local carried = booked + debt(numbers, used)
    if following and now < following then
      return {new_start, new_stop, carried, 0}
    end
    local last = following and window_end(numbers, following)
    return {new_start, new_stop, last and now < last and debt(numbers, carried) or 0, 0}
  end

  -- The first moment from `asked` on that has room, and the one from which it may be booked.
  local function room(numbers, state, asked, cost)
    local start, stop, used, booked = unpack(state)
    local following = window_end(numbers, stop)
    if asked >= stop and following and asked >= following then
      return asked, asked
    end
    local opens = 0
    while asked >= stop or used + cost > numbers[1] do
      opens = start
      start, stop = window(numbers, stop)
      if not start or start > LAST then
        return math.huge, math.huge
      end
      used, booked = booked + debt(numbers, used), 0
      asked = math.max(asked, start)
    end
    return asked, opens
  end

  function fixed.take(numbers, state, now, cost, max_wait, from)
    state = fixed.step(numbers, state, now)
    local start, stop, used, booked = unpack(state)
    if cost > numbers[1] then
      return nil, state
    end
    local at, opens = room(numbers, state, math.max(now, from, start), cost)
    if at > LAST or math.max(opens, at - max_wait) > now then
      return nil, state
    end
    if at >= stop then
      return at, {start, stop, used, booked + cost}
    end
    return at, {start, stop, used + cost, booked}
  end

  function fixed.charge(numbers, state, now, cost)
    local start, stop, used, booked = unpack(fixed.step(numbers, state, now))
    return {start, stop, math.max(used, math.min(used + cost, 2 * numbers[1] - booked)), booked}
  end

  function fixed.give_back(numbers, state, now, cost, at)
    local start, stop, used, booked = unpack(fixed.step(numbers, state, now))
    local following = window_end(numbers, stop)
    if start <= at and at < stop then
      used = math.max(0, used - cost)
    elseif following and stop <= at and at < following then
      booked = math.max(0, booked - cost)
    end
    return {start, stop, used, booked}
  end

  function fixed.forget_at(numbers, state)
    local _, stop, used, booked = unpack(state)
    while booked > 0 or used > numbers[1] do
      used, booked = booked + debt(numbers, used), 0
      stop = window_end(numbers, stop) or stop + 366 * 86400 * 1000000
    end
    return stop
  end

  return fixed
end
