-- SlidingCounter: the estimate of a window from the permits of this period and a share of the last one's.
-- Numbers: limit; period (us). State: number of a period and permits in it, for each that still counts.
-- Uses _product.lua.

makers.sliding_counter = function()
  local counter, slots = {}, the("slots")

  -- The period a moment lies in, and how far.
  local function slot_of(at, period)
    local elapsed = math.fmod(at, period)
    return (at - elapsed) / period, elapsed
  end

  -- The estimate in permits, rounded up, with those booked ahead.
  local function used(numbers, state, now)
    local slot, elapsed = slot_of(now, numbers[2])
    state = slots.since(state, slot - 1)
    local before = #state > 0 and state[1] < slot and state[2] or 0
    return slots.total(state) - product_over(before, elapsed, numbers[2])
  end

  -- The first moment from `from` on with room for `cost` permits.
  local function free_at(numbers, state, from, cost)
    local limit, period = unpack(numbers)
    state = slots.since(state, slot_of(from, period) - 1)
    local free = limit - cost - slots.total(state)
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

  counter.pack, counter.unpack = slots.pack, slots.unpack

  function counter.shifted(numbers, state, _, now)
    return slots.gathered(state, (slot_of(now, numbers[2])))
  end

  function counter.take(numbers, state, now, cost, max_wait, from)
    local limit, period = unpack(numbers)
    state = slots.since(state, slot_of(now, period) - 1)
    if cost > limit then
      return nil, state
    end
    local at = free_at(numbers, state, math.max(now, from), cost)
    if at - now > max_wait then
      return nil, state
    end
    return at, slots.added(state, (slot_of(at, period)), cost)
  end

  function counter.charge(numbers, state, now, cost)
    local limit, period = unpack(numbers)
    local slot = slot_of(now, period)
    state = slots.since(state, slot - 1)
    cost = math.min(cost, 2 * limit - used(numbers, state, now))
    return cost > 0 and slots.added(state, slot, cost) or state
  end

  function counter.give_back(numbers, state, now, cost, at)
    local period = numbers[2]
    local slot = slot_of(at, period)
    state = slots.since(state, slot_of(now, period) - 1)
    return slots.removed(state, slot, cost)
  end

  function counter.forget_at(numbers, state)
    return #state > 0 and (state[#state - 1] + 2) * numbers[2] or 0
  end

  return counter
end
