-- QpsWindow: Sentinel's two half seconds of the clock.
-- Numbers: the count in whole permits. State: number of a half second and permits in it, for each that
-- still counts.

makers.qps_window = function()
  local window, slots = {}, the("slots")
  local HALF = 500000

  local function half_of(at)
    return math.floor(at / HALF)
  end

  function window.start()
    return {}
  end

  window.pack, window.unpack = slots.pack, slots.unpack

  function window.shifted(_, state, _, now)
    return slots.gathered(state, half_of(now))
  end

  local function step(state, now)
    return slots.since(state, half_of(now) - 1)
  end

  -- The first moment from `from` on with room, if nobody comes; nil if there never is.
  local function free_at(count, state, from, cost)
    state = step(state, from)
    while slots.total(state) + cost > count do
      if #state == 0 then
        return nil
      end
      from = math.max(from, (state[1] + 2) * HALF)
      table.remove(state, 1)
      table.remove(state, 1)
    end
    return from
  end

  function window.take(numbers, state, now, cost, max_wait, from)
    state = step(state, now)
    local at = free_at(numbers[1], state, math.max(now, from), cost)
    if not at or at - now > max_wait then
      return nil, state
    end
    return at, slots.added(state, half_of(at), cost)
  end

  function window.charge(numbers, state, now, cost)
    state = step(state, now)
    cost = math.min(cost, 2 * numbers[1] - slots.total(state))
    return cost > 0 and slots.added(state, half_of(now), cost) or state
  end

  function window.give_back(_, state, now, cost, at)
    return slots.removed(step(state, now), half_of(at), cost)
  end

  function window.forget_at(_, state)
    return #state > 0 and (state[#state - 1] + 2) * HALF or 0
  end

  return window
end
