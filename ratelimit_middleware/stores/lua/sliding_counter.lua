-- SlidingCounter: the estimate of a window from the permits of this period and a share of the last one's.
-- Numbers: limit; period (us). State: number of a period and permits in it, for each that still counts.

makers.sliding_counter = function()
  local counter = {}

  -- The period a moment lies in, and how far.
  local function slot_of(at, period)
    local elapsed = math.fmod(at, period)
    return (at - elapsed) / period, elapsed
  end

  local function since(state, slot)
    local first = 1
    while first < #state and state[first] < slot do
      first = first + 2
    end
    return {unpack(state, first)}
  end

  local function total(state)
    local permits = 0
    for place = 2, #state, 2 do
      permits = permits + state[place]
    end
    return permits
  end

  local function added(state, slot, permits)
    local new, place = {unpack(state)}, #state + 1
    while place > 1 and new[place - 2] > slot do
      place = place - 2
    end
    if place > 1 and new[place - 2] == slot then
      new[place - 1] = new[place - 1] + permits
    else
      table.insert(new, place, permits)
      table.insert(new, place, slot)
    end
    return new
  end

  -- The estimate in permits, rounded up, with those booked ahead.
  local function used(numbers, state, now)
    local slot, elapsed = slot_of(now, numbers[FIRST + 1])
    state = since(state, slot - 1)
    local before = #state > 0 and state[1] < slot and state[2] or 0
    return total(state) - product_over(before, elapsed, numbers[FIRST + 1])
  end

  -- The first moment from `from` on with room for `cost` permits.
  local function free_at(numbers, state, from, cost)
    local limit, period = unpack(numbers, FIRST)
    state = since(state, slot_of(from, period) - 1)
    local free = limit - cost - total(state)
    for place = 1, #state, 2 do
      if free >= 0 then
        break
      end
      local fading, fades = state[place + 1], (state[place] + 1) * period
      free = free + fading
      if free >= 0 then
        return math.max(from, fades + period - product_over(free, period, fading))
      end
    end
    return from
  end

  function counter.start()
    return {}
  end

  function counter.pack(head, state)
    return head .. struct.pack("<" .. ("d"):rep(#state), unpack(state))
  end

  function counter.unpack(text, place)
    local state = {struct.unpack("<" .. ("d"):rep((#text - place + 1) / 8), text, place)}
    table.remove(state) -- the place behind them
    return state
  end

  -- What lies in periods that have not begun any more counts in the present one.
  function counter.shifted(numbers, state, _, now)
    local present = slot_of(now, numbers[FIRST + 1])
    local new, moved = {}, 0
    for place = 1, #state, 2 do
      if state[place] < present then
        new = added(new, state[place], state[place + 1])
      else
        moved = moved + state[place + 1]
      end
    end
    return moved > 0 and added(new, present, moved) or new
  end

  function counter.take(numbers, state, now, cost, max_wait, from)
    local limit, period = unpack(numbers, FIRST)
    state = since(state, slot_of(now, period) - 1)
    if cost > limit then
      return nil, state
    end
    local at = free_at(numbers, state, math.max(now, from), cost)
    if at - now > max_wait then
      return nil, state
    end
    return at, added(state, (slot_of(at, period)), cost)
  end

  function counter.charge(numbers, state, now, cost)
    local limit, period = unpack(numbers, FIRST)
    local slot = slot_of(now, period)
    state = since(state, slot - 1)
    cost = math.min(cost, 2 * limit - used(numbers, state, now))
    return cost > 0 and added(state, slot, cost) or state
  end

  function counter.give_back(numbers, state, now, cost, at)
    local period = numbers[FIRST + 1]
    local slot = slot_of(at, period)
    state = since(state, slot_of(now, period) - 1)
    for place = 1, #state, 2 do
      if state[place] == slot then
        state[place + 1] = state[place + 1] - cost
        if state[place + 1] <= 0 then
          table.remove(state, place)
          table.remove(state, place)
        end
        break
      end
    end
    return state
  end

  function counter.forget_at(numbers, state)
    return #state > 0 and (state[#state - 1] + 2) * numbers[FIRST + 1] or 0
  end

  return counter
end
