-- WarmUpPacing: Sentinel's warm-up with pacing. Numbers: those of the cold prices.
-- State: tokens, the second they were last counted in (ms), the moment of the latest booking and the one up
-- to which bookings were made at another price, as (us, part) each, and the permits that pass in each
-- calendar second from the present one on.
-- Uses _ticks.lua.

makers.warm_up_pacing = function()
  local pacing, bucket, prices = {}, the("cold_bucket"), the("cold_prices")
  local queue, slots = the("queue"), the("slots")

  local function kept(numbers)
    return queue.kept(numbers[9], numbers[10])
  end

  -- Cold, and idle for a minute.
  function pacing.start(numbers, now)
    local us, part = queue.minus(now, 0, kept(numbers))
    local stored, filled_ms = bucket.cold_core(numbers, now)
    return {stored, filled_ms, us, part, us, part, {}}
  end

  function pacing.pack(head, state)
    return slots.pack(head .. struct.pack("<dddddd", unpack(state, 1, 6)), state[7])
  end

  function pacing.unpack(text, place)
    local stored, filled_ms, us, part, older_us, older_part, behind = struct.unpack("<dddddd", text, place)
    return {stored, filled_ms, us, part, older_us, older_part, slots.unpack(text, behind)}
  end

  function pacing.shifted(_, state, by)
    local stored, filled_ms, us, part, older_us, older_part, passes = unpack(state)
    local seconds, moved = bucket.seconds_back(by), {}
    for place = 1, #passes, 2 do
      moved[place], moved[place + 1] = passes[place] + seconds, passes[place + 1]
    end
    return {stored, filled_ms + 1000 * seconds, us + by, part, older_us + by, older_part, moved}
  end

  function pacing.step(numbers, state, now)
    local stored, filled_ms, us, part, _, _, passes = unpack(state)
    local second = bucket.second_of(now)
    if second * 1000 <= filled_ms then
      return state
    end
    local before = slots.count_at(passes, second - 1)
    -- A cold bucket has seconds without passes, in which it is in use all the same.
    local in_use = numbers[5] == 0
      and not is_after(second * 1000000, 0, queue.plus(us, part, numbers[9], numbers[10]))
    stored, filled_ms = bucket.synchronised(numbers, stored, filled_ms, second, before, in_use)
    return {stored, filled_ms, us, part, us, part, slots.since(passes, second)}
  end

  -- Whether tokens have been counted between two states: a second that is left out would be lost.
  function pacing.counted(before, after)
    return before[2] ~= after[2]
  end

  function pacing.take(numbers, state, now, cost, max_wait, from)
    state = pacing.step(numbers, state, now)
    local stored, filled_ms, us, part, older_us, older_part, passes = unpack(state)
    local quota, queueing = numbers[6], numbers[7]
    if quota == 0 then
      return nil, state
    end
    local asked = math.max(from, now)
    us, part = later(asked, 0, queue.plus(us, part, prices.price(numbers, stored, cost)))
    local at = ceil_us(us, part)
    if at - now > queue.patience(queueing, max_wait, asked, now) or at > LAST then
      return nil, state
    end
    passes = slots.added(passes, bucket.second_of(us), cost)
    return at, {stored, filled_ms, us, part, older_us, older_part, passes}
  end

  function pacing.charge(numbers, state, now, cost)
    local stored, filled_ms, us, part, older_us, older_part, passes = unpack(pacing.step(numbers, state, now))
    local quota = numbers[6]
    us, part, cost = queue.charged(us, part, now, cost, quota, prices.single(numbers, stored))
    if cost > 0 then
      passes = slots.added(passes, bucket.second_of(now), cost)
    end
    return {stored, filled_ms, us, part, older_us, older_part, passes}
  end

  function pacing.give_back(numbers, state, _, cost, at)
    local stored, filled_ms, us, part, older_us, older_part, passes = unpack(state)
    if at ~= ceil_us(us, part) or numbers[6] == 0 then -- a limit of 0 has booked nothing
      return state
    end
    passes = slots.removed(passes, bucket.second_of(us), cost)
    if is_after(us, part, older_us, older_part) then
      us, part = queue.minus(us, part, prices.price(numbers, stored, cost))
    else
      us, part = queue.minus(us, part, prices.least(numbers, cost))
    end
    -- What is booked next may lie before the one that has gone, and has the present price all the same.
    if is_after(older_us, older_part, us, part) then
      older_us, older_part = us, part
    end
    return {stored, filled_ms, us, part, older_us, older_part, passes}
  end

  function pacing.forget_at(numbers, state)
    local stored, filled_ms, us, part, _, _, passes = unpack(state)
    local idle = ceil_us(queue.plus(us, part, kept(numbers)))
    local missing = numbers[3] - stored + slots.total(passes)
    if missing == 0 or numbers[1] == 0 then
      return idle
    end
    local last = passes[#passes - 1] or 0
    return math.max(idle, math.max(bucket.full_in(numbers, filled_ms, missing), last + 2) * 1000000)
  end

  return pacing
end
