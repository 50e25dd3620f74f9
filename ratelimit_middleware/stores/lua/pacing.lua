-- Pacing: Sentinel's rate limiter, one request after the other.
-- Numbers: price of `cost` permits and interval of one, as (us, part) each; longest wait (us); quota.
-- State: moment of the latest booking, as (us, part).
-- Uses _ticks.lua.

makers.pacing = function()
  local pacing, queue = {}, the("queue")

  local function kept(numbers)
    return queue.kept(numbers[3], numbers[4])
  end

  -- Idle for a minute.
  function pacing.start(numbers, now)
    local us, part = queue.minus(now, 0, kept(numbers))
    return {us, part}
  end

  function pacing.pack(head, state)
    return head .. struct.pack("<dd", unpack(state))
  end

  function pacing.unpack(text, place)
    local us, part = struct.unpack("<dd", text, place)
    return {us, part}
  end

  function pacing.shifted(_, state, by)
    return {state[1] + by, state[2]}
  end

  function pacing.take(numbers, state, now, cost, max_wait, from)
    local price_us, price_part, _, _, queueing, quota = unpack(numbers)
    local asked = math.max(from, now)
    if cost < 1 then
      return asked, state
    end
    local us, part = later(asked, 0, queue.plus(state[1], state[2], price_us, price_part))
    local at = ceil_us(us, part)
    if quota == 0 or at - now > queue.patience(queueing, max_wait, asked, now) or at > LAST then
      return nil, state
    end
    return at, {us, part}
  end

  function pacing.charge(numbers, state, now, cost)
    local _, _, interval_us, interval_part, _, quota = unpack(numbers)
    local us, part = queue.charged(state[1], state[2], now, cost, quota, interval_us, interval_part)
    return {us, part}
  end

  function pacing.give_back(numbers, state, _, _, at)
    if at ~= ceil_us(state[1], state[2]) then
      return state
    end
    local us, part = queue.minus(state[1], state[2], numbers[1], numbers[2])
    return {us, part}
  end

  function pacing.forget_at(numbers, state)
    return ceil_us(queue.plus(state[1], state[2], kept(numbers)))
  end

  return pacing
end
