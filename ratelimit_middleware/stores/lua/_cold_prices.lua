-- What WarmUpPacing asks of a request, to the nanosecond: as (us, part) with 1000 parts.
-- Numbers: those of the bucket of cold; quota; longest wait (us); 1 for prices in whole milliseconds; price of
-- a permit when it is coldest and when it is warm, as (us, part) each; and four whole numbers: a permit with
-- n tokens above the line costs (base + n * steeper) * times / divisor ns.
-- Uses _ticks.lua.

makers.cold_prices = function()
  local prices, bucket, whole = {}, the("cold_bucket"), the("whole")
  local PARTS = 1000

  local function in_whole_ms(numbers, stored, cost)
    local ms = cost / bucket.rate(numbers, stored) * 1000
    local below = math.floor(ms)
    return ms - below >= 0.5 and below + 1 or below
  end

  local function exact(numbers, stored, cost)
    local base, steeper, factor, divisor, place
    base, place = whole.read(numbers, 13)
    steeper, place = whole.read(numbers, place)
    factor, place = whole.read(numbers, place)
    divisor = whole.read(numbers, place)
    local above = whole.of(math.max(0, stored - numbers[2]))
    local price = whole.plus(base, whole.times(above, steeper))
    price = whole.times(whole.times(whole.of(cost), price), factor)
    local about = whole.value(price) / whole.value(divisor)
    if about < LAST then
      local ns = whole.quotient_up(price, divisor)
      return math.floor(ns / PARTS), math.fmod(ns, PARTS)
    end
    if about < LAST * PARTS then -- 52 days or more: in whole microseconds
      return whole.quotient_up(price, whole.times(divisor, whole.of(PARTS))), 0
    end
    return LAST, 0
  end

  -- How long after the request before one of this cost may start, with so many tokens stored.
  function prices.price(numbers, stored, cost)
    if numbers[8] == 1 then
      local ms = in_whole_ms(numbers, stored, cost)
      if ms > 0 or cost == 0 then
        return ms * 1000, 0
      end
    end
    return exact(numbers, stored, cost)
  end

  -- Of a single permit; a limit of 0 still counts by the second.
  function prices.single(numbers, stored)
    if numbers[6] == 0 then
      return numbers[11], numbers[12]
    end
    return prices.price(numbers, stored, 1)
  end

  -- When it is warm: rounded, it may be less on the warning line than below.
  function prices.least(numbers, cost)
    local us, part = prices.price(numbers, numbers[2], cost)
    return earlier(us, part, prices.price(numbers, 0, cost))
  end

  return prices
end
