-- SmoothBursty and SmoothWarmingUp: Guava's account of stored permits and of debt, in doubles, each
-- operation in the original's order.
-- Numbers: interval of the rate (us); most permits stored; permits stored at the start; interval in which
-- one is stored (us); 1 if stored permits are cold, else 0; threshold and slope of the cold; quota.
-- State: permits stored, next free ticket, begin of the run of bookings, permits stored before the last
-- booking that took some, moment of that booking (-1: none).

makers.smooth = function()
  local smooth = {}
  local NOBODY, IDLE_KEPT = -1, 3600 * 1000000

  function smooth.start(numbers, now)
    return {numbers[3], now, now, 0, NOBODY}
  end

  function smooth.pack(head, state)
    return head .. struct.pack("<ddddd", unpack(state))
  end

  function smooth.unpack(text, place)
    local stored, next_free, run, before, taker = struct.unpack("<ddddd", text, place)
    return {stored, next_free, run, before, taker}
  end

  function smooth.shifted(_, state, by)
    local stored, next_free, run, before, taker = unpack(state)
    return {stored, next_free + by, run + by, before, taker == NOBODY and NOBODY or taker + by}
  end

  function smooth.step(numbers, state, now)
    local _, most, _, refill = unpack(numbers)
    if now <= state[2] then
      return state
    end
    return {math.min(most, state[1] + (now - state[2]) / refill), now, now, 0, NOBODY}
  end

  local function free(numbers, stored)
    return numbers[5] == 1 and 0 or stored
  end

  -- The area under the line above the threshold, then the stable interval; each part truncated.
  local function price(numbers, stored, taken)
    local stable, _, _, _, is_cold, threshold, slope = unpack(numbers)
    if is_cold == 0 then
      return 0
    end
    local above, costs = stored - threshold, 0
    if above > 0 then
      local cold = math.min(above, taken)
      local first = stable + above * slope
      local last = stable + (above - cold) * slope
      costs = math.floor(cold * (first + last) / 2)
      taken = taken - cold
    end
    return costs + math.floor(stable * taken)
  end

  local function booked(numbers, state, at, cost)
    local stored, next_free, run, before, taker = unpack(state)
    local taken = math.min(cost, stored)
    local costs = price(numbers, stored, taken) + math.floor((cost - taken) * numbers[1])
    if stored ~= 0 or at == taker then
      before, taker = stored, at
    end
    return {stored - taken, math.min(LAST, next_free + costs), run, before, taker}
  end

  function smooth.take(numbers, state, now, cost, max_wait, from)
    local at = math.max(now, from, state[2])
    if at - now > max_wait then
      return nil, smooth.step(numbers, state, now)
    end
    return at, booked(numbers, smooth.step(numbers, state, at), at, cost)
  end

  local function used(numbers, state, now)
    local stable, most = unpack(numbers)
    local debt = math.max(0, state[2] - now)
    return math.ceil(free(numbers, most) - free(numbers, state[1]) + debt / stable)
  end

  function smooth.charge(numbers, state, now, cost)
    state = smooth.step(numbers, state, now)
    cost = math.min(cost, 2 * numbers[8] - used(numbers, state, now))
    return cost > 0 and booked(numbers, state, math.max(now, state[2]), cost) or state
  end

  function smooth.give_back(numbers, state, _, cost, at)
    local stored, next_free, run, before, taker = unpack(state)
    if at < run or at < taker then
      return state
    end
    local earlier_state
    if at == taker then
      earlier_state = {before, at, run, 0, NOBODY}
    elseif stored ~= 0 then
      earlier_state = {stored + cost, at, run, 0, NOBODY}
    else
      earlier_state = {0, at, run, before, taker}
    end
    local again = booked(numbers, earlier_state, at, cost)
    local leads_here = again[1] == stored and again[2] == next_free
    return leads_here and earlier_state[1] <= numbers[2] and earlier_state or state
  end

  function smooth.forget_at(numbers, state)
    local _, most, _, refill, is_cold = unpack(numbers)
    local full = state[2] + math.ceil((most - state[1]) * refill)
    return is_cold == 1 and full or full + IDLE_KEPT
  end

  return smooth
end
