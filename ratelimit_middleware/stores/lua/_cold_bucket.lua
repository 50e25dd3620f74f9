-- What WarmUp and WarmUpPacing share: Sentinel's bucket of cold, in doubles, each operation in Python's order.
-- The first numbers of both: count; tokens at the warning line; most tokens; slope; passes a second of a
-- cold bucket in use.

makers.cold_bucket = function()
  local bucket = {}

  function bucket.second_of(at)
    return math.floor(at / 1000000)
  end

  -- Permits a second with this many tokens.
  function bucket.rate(numbers, stored)
    local count, warning, _, slope = unpack(numbers)
    if stored < warning or count == 0 then
      return count
    end
    local rate = 1 / ((stored - warning) * slope + 1 / count)
    -- One unit in the last place up.
    local _, exponent = math.frexp(rate)
    return rate + math.ldexp(1, exponent - 53)
  end

  -- Tokens and the second (ms) they were last counted in, of a new bucket: full, and not counted yet.
  function bucket.cold_core(numbers, now)
    return numbers[3], (bucket.second_of(now) - 1) * 1000
  end

  -- Tokens counted once a calendar second.
  function bucket.synchronised(numbers, stored, filled_ms, second, passed_before, in_use)
    local count, warning, most, _, cold_passes = unpack(numbers)
    local second_ms = second * 1000
    if second_ms <= filled_ms then
      return stored, filled_ms
    end
    local quiet_below = stored == warning and 1 or math.max(1, cold_passes)
    if stored < warning or (passed_before < quiet_below and not in_use) then
      stored = math.floor(stored + (second_ms - filled_ms) * count / 1000)
    end
    return math.max(0, math.min(stored, most) - passed_before), second_ms
  end

  -- The second from which an idle bucket is full again, if so many tokens are missing.
  function bucket.full_in(numbers, filled_ms, missing)
    return math.ceil((filled_ms + math.ceil(missing * 1000 / numbers[1])) / 1000)
  end

  -- Whole seconds for a clock that has gone back by `by` (below 0): seconds stay seconds.
  function bucket.seconds_back(by)
    return math.ceil(by / 1000000)
  end

  return bucket
end
