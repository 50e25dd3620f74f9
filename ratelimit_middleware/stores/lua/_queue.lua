-- What Pacing and WarmUpPacing share: moments as (us, part) with 1000 parts, so to the nanosecond.
-- Uses _ticks.lua.

makers.queue = function()
  local queue = {}
  local PARTS, KEPT = 1000, 60 * 1000000
  local MAX_CORRECTIONS = 8

  function queue.plus(us, part, more_us, more_part)
    return plus(us, part, more_us, more_part, PARTS)
  end

  function queue.minus(us, part, less_us, less_part)
    return minus(us, part, less_us, less_part, PARTS)
  end

  -- A time n times; below 2^53 us.
  local function times(us, part, n)
    local parts = part * n
    return us * n + math.floor(parts / PARTS), math.fmod(parts, PARTS)
  end

  -- How many intervals cover a time, exact where a division of doubles would not be.
  local function covering(us, part, interval_us, interval_part)
    local n = math.ceil((us + part / PARTS) / (interval_us + interval_part / PARTS))
    for _ = 1, MAX_CORRECTIONS do
      if is_after(us, part, times(interval_us, interval_part, n)) then
        n = n + 1
      elseif n > 0 and not is_after(us, part, times(interval_us, interval_part, n - 1)) then
        n = n - 1
      else
        return n
      end
    end
    error("a broken entry", 0) -- the quotient was never near
  end

  -- For so long a key never seen counts as idle.
  function queue.kept(us, part)
    return later(KEPT, 0, us, part)
  end

  -- How long one may wait who asks for a start at `asked`.
  function queue.patience(queueing, max_wait, asked, now)
    return math.min(queueing + asked - now, max_wait)
  end

  -- The latest booking after `cost` single permits more, and how many of them the longest debt (two full
  -- queues) has taken.
  function queue.charged(us, part, now, cost, quota, interval_us, interval_part)
    local free_us, free_part = later(now, 0, queue.plus(us, part, interval_us, interval_part))
    local ahead_us, ahead_part = queue.minus(free_us, free_part, now, 0)
    cost = math.min(cost, 2 * quota - covering(ahead_us, ahead_part, interval_us, interval_part))
    if cost <= 0 then
      return us, part, 0
    end
    us, part = queue.plus(free_us, free_part, times(interval_us, interval_part, cost - 1))
    return math.min(us, LAST), part, cost
  end

  return queue
end
