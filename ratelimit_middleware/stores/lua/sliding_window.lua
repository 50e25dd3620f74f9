-- SlidingWindow: a log of admissions, exact up to 64 entries, then merged.
-- Numbers: limit; period (us); grain (us, a 64th of the period).
-- State: permits used; the newest entry (first hit, last hit, permits; 0 permits = an empty log); and the
-- older ones, packed.
-- Uses _packed_log.lua, _hit_entry.lua.

makers.sliding_window = function()
  local HEADER, HEADER_SIZE, MOST_GONE = "<dddI4I4", 32, 16

  local function may_join(state, at, grain)
    local count = older_count(state, SIZE)
    if count < EXACT_ENTRIES - 1 or at - state.first > grain then
      return false
    end
    return state.first - older_entry(state, count - 1, ENTRY, SIZE) > grain
  end

  -- The state with `cost` permits booked for `at`.
  local function with_hit(state, at, cost, grain)
    local used, first, last, permits = state.used + cost, state.first, state.last, state.permits
    if permits == 0 then
      return with_newest(state, used, at, at, cost)
    end
    if at < last then
      return the("hit_log").inserted(state, at, cost, grain)
    end
    if (at == last or may_join(state, at, grain)) and permits + cost <= MAX_PERMITS then
      return with_newest(state, used, first, at, permits + cost)
    end
    local new = with_newest(state, used, at, at, cost)
    new.added = state.added .. struct.pack(ENTRY, first, last, permits)
    if older_count(new, SIZE) < EXACT_ENTRIES then
      return new
    end
    return the("hit_log").merged(new, grain)
  end

  -- The hit with which the oldest `permits` permits are complete.
  local function last_of_oldest(state, permits)
    for index = 0, older_count(state, SIZE) - 1 do
      local _, last, count = older_entry(state, index, ENTRY, SIZE)
      permits = permits - count
      if permits <= 0 then
        return last
      end
    end
    return state.last
  end

  -- Permits left, and the wait for the next one (if none) or for all of them.
  local function left(limit, period, state, now)
    if state.used >= limit then
      return 0, last_of_oldest(state, state.used + 1 - limit) + period - now
    end
    if state.permits == 0 then
      return limit, 0
    end
    return limit - state.used, state.last + period - now
  end

  local function header(state, gone)
    return struct.pack(HEADER, state.used, state.first, state.last, state.permits, gone)
  end

  local function start()
    return {used = 0, first = 0, last = 0, permits = 0, body = "", from = 1, added = ""}
  end

  local function packed(head, state)
    return head .. header(state, 0) .. older_text(state)
  end

  local function unpacked(text, place)
    local used, first, last, permits, gone, behind = struct.unpack(HEADER, text, place)
    return {
      used = used, first = first, last = last, permits = permits,
      body = text, from = log_begin(text, behind, gone, SIZE), added = "",
    }
  end

  local function shifted(_, state, by)
    return state.permits > 0 and the("hit_log").shifted(state, by) or state
  end

  -- If all that has changed of a text are its header (which begins at `place`) and what stands behind
  -- its end: both; else nil.
  local function patch(text, place, state)
    local gone = only_gone(state, text, place + HEADER_SIZE, SIZE, MOST_GONE)
    if gone then
      return header(state, gone), state.added
    end
    return nil
  end

  -- Drop the entries that are a period old.
  local function step(numbers, state, now)
    local used, horizon = state.used, now - numbers[2]
    if state.permits == 0 then
      return state
    end
    if state.last <= horizon then
      return start()
    end
    local gone, count = 0, older_count(state, SIZE)
    while gone < count do
      local _, last, permits = older_entry(state, gone, ENTRY, SIZE)
      if last > horizon then
        break
      end
      used = used - permits
      gone = gone + 1
    end
    if gone == 0 then
      return state
    end
    local new = with_newest(state, used, state.first, state.last, state.permits)
    new.from = state.from + gone * SIZE
    return new
  end

  -- Whether hits have left between two states: a longer window that adopts the bucket must not see them again.
  local function counted(before, after)
    return before ~= after
  end

  -- The answer of `take` under another limit, at most the window's own: the moment booked for or nil, the
  -- state to keep, the wait after which to try again (-1: never), permits remaining, time to the reset.
  local function take_within(limit, numbers, state, now, cost, max_wait, from)
    local _, period, grain = unpack(numbers)
    state = step(numbers, state, now)
    local at, excess = math.max(from, now), state.used + cost - limit
    if cost > limit then
      return nil, state, -1, left(limit, period, state, now)
    end
    if excess > 0 then
      at = math.max(at, last_of_oldest(state, excess) + period)
    end
    if at - now > max_wait then
      return nil, state, at - now - max_wait, left(limit, period, state, now)
    end
    local new = with_hit(state, at, cost, grain)
    return at, new, 0, left(limit, period, new, now)
  end

  local function take(numbers, state, now, cost, max_wait, from)
    local at, new, retry, remaining, reset =
      take_within(numbers[1], numbers, state, now, cost, max_wait, from)
    return at, new, struct.pack("<ddd", retry, remaining, reset)
  end

  -- Without the oldest permits of the log.
  local function without_oldest(state, permits)
    local gone = math.min(math.max(0, permits), state.used)
    return gone == 0 and state or the("hit_log").without_oldest(state, gone) or start()
  end

  -- As if `cost` permits more were no debt: the oldest are forgotten for them.
  local function with_room(numbers, state, now, cost)
    state = step(numbers, state, now)
    return without_oldest(state, state.used + cost - numbers[1])
  end

  local function charge(numbers, state, now, cost)
    state = step(numbers, state, now)
    cost = math.min(cost, 2 * numbers[1] - state.used)
    return cost > 0 and with_hit(state, now, cost, numbers[3]) or state
  end

  local function give_back(numbers, state, now, cost, at)
    state = step(numbers, state, now)
    if state.permits == 0 then
      return state
    end
    return the("hit_log").without_hit(state, at, cost) or start()
  end

  local function forget_at(numbers, state)
    return state.permits > 0 and state.last + numbers[2] or 0
  end

  return {
    start = start, pack = packed, unpack = unpacked, shifted = shifted, patch = patch, step = step,
    counted = counted,
    take_within = take_within, take = take, without_oldest = without_oldest, with_room = with_room,
    charge = charge, give_back = give_back, forget_at = forget_at,
  }
end
