-- SlidingWindow: a log of admissions, exact up to 64 entries, then merged.
-- Numbers: limit; period (us); grain (us, a 64th of the period).
-- State: permits used; the newest entry (first hit, last hit, permits; 0 permits = an empty log); and the
-- older ones, packed, oldest first: they stand in `body` from the place `from` on, those that have come
-- since it was read in `added`. So the long text is neither taken apart nor put together in most calls.

makers.sliding_window = function()
  local window = {}
  local ENTRY, SIZE, EXACT_ENTRIES, MAX_PERMITS = "ddI4", 20, 64, 2 ^ 32 - 1
  local HEADER_SIZE, MOST_GONE = 32, 16

  local function older(state)
    return (#state.body + #state.added - state.from + 1) / SIZE
  end

  -- First hit, last hit and permits of an older entry, counted from 0.
  local function entry(state, index)
    local place = state.from + index * SIZE
    if place <= #state.body then
      return struct.unpack("<ddI4", state.body, place)
    end
    return struct.unpack("<ddI4", state.added, place - #state.body)
  end

  local function older_text(state)
    local body, from = state.body, state.from
    if from > #body then
      return state.added:sub(from - #body)
    end
    return (from == 1 and body or body:sub(from)) .. state.added
  end

  -- Another state with the same older entries.
  local function on(state, used, first, last, permits)
    return {
      used = used, first = first, last = last, permits = permits,
      body = state.body, from = state.from, added = state.added,
    }
  end

  local function entries(state)
    local count = older(state)
    local list = {struct.unpack("<" .. ENTRY:rep(count), older_text(state))}
    list[3 * count + 1], list[3 * count + 2], list[3 * count + 3] = state.first, state.last, state.permits
    return list, count + 1
  end

  -- Neighbours merged, oldest first, while their last hit lies within a grain of the group's first.
  local function merged(list, count, grain)
    local kept = 1
    for place = 4, 3 * count, 3 do
      local group = 3 * kept - 2
      local first, last, permits = list[place], list[place + 1], list[place + 2]
      if last - list[group] <= grain and list[group + 2] + permits <= MAX_PERMITS then
        list[group + 1], list[group + 2] = last, list[group + 2] + permits
      else
        kept = kept + 1
        list[group + 3], list[group + 4], list[group + 5] = first, last, permits
      end
    end
    return kept
  end

  local function packed(used, list, count, grain)
    if count > EXACT_ENTRIES then
      count = merged(list, count, grain)
    end
    while count > EXACT_ENTRIES + 1 do
      grain = grain * 2
      count = merged(list, count, grain)
    end
    local newest = 3 * count - 2
    local body = struct.pack("<" .. ENTRY:rep(count - 1), unpack(list, 1, newest - 1))
    local state = {body = body, from = 1, added = ""}
    return on(state, used, list[newest], list[newest + 1], list[newest + 2])
  end

  -- A hit that lies before the end of the log (others are booked ahead).
  local function inserted(state, at, cost, grain)
    local list, count = entries(state)
    local used = state.used + cost
    for place = 1, 3 * count, 3 do
      local first, last, permits = list[place], list[place + 1], list[place + 2]
      if at < first or permits + cost > MAX_PERMITS then
        for behind = 3 * count, place, -1 do
          list[behind + 3] = list[behind]
        end
        list[place], list[place + 1], list[place + 2] = at, at, cost
        return packed(used, list, count + 1, grain)
      end
      if at <= last then
        list[place + 2] = permits + cost
        return packed(used, list, count, grain)
      end
    end
  end

  local function may_join(state, at, grain)
    local count = older(state)
    if count < EXACT_ENTRIES - 1 or at - state.first > grain then
      return false
    end
    return state.first - entry(state, count - 1) > grain
  end

  -- The state with `cost` permits booked for `at`.
  local function with(state, at, cost, grain)
    local first, last, permits = state.first, state.last, state.permits
    local used = state.used + cost
    if permits == 0 then
      return on(state, used, at, at, cost)
    end
    if at < last then
      return inserted(state, at, cost, grain)
    end
    if (at == last or may_join(state, at, grain)) and permits + cost <= MAX_PERMITS then
      return on(state, used, first, at, permits + cost)
    end
    local new = on(state, used, at, at, cost)
    new.added = state.added .. struct.pack("<ddI4", first, last, permits)
    local count = older(new) + 1
    if count <= EXACT_ENTRIES then
      return new
    end
    return packed(used, (entries(new)), count, grain)
  end

  -- The moment at which the oldest `permits` permits have come back.
  local function free_at(state, permits, period)
    for index = 0, older(state) - 1 do
      local _, last, count = entry(state, index)
      permits = permits - count
      if permits <= 0 then
        return last + period
      end
    end
    return state.last + period
  end

  local function left(limit, period, state, now)
    if state.used >= limit then
      return 0, free_at(state, state.used + 1 - limit, period) - now
    end
    if state.permits == 0 then
      return limit, 0
    end
    return limit - state.used, state.last + period - now
  end

  local function header(state, gone)
    return struct.pack("<dddI4I4", state.used, state.first, state.last, state.permits, gone)
  end

  function window.start()
    return {used = 0, first = 0, last = 0, permits = 0, body = "", from = 1, added = ""}
  end

  function window.pack(head, state)
    return head .. header(state, 0) .. older_text(state)
  end

  function window.unpack(text, place)
    local used, first, last, permits, gone = struct.unpack("<dddI4I4", text, place)
    local from = place + HEADER_SIZE + gone * SIZE
    if from > #text + 1 or (#text + 1 - from) % SIZE ~= 0 then
      error("a broken log", 0) -- its length would be any number
    end
    local state = {body = text, from = from, added = ""}
    return on(state, used, first, last, permits)
  end

  function window.shifted(_, state, by)
    if state.permits == 0 then
      return state
    end
    local list, count = entries(state)
    for place = 1, 3 * count, 3 do
      list[place], list[place + 1] = list[place] + by, list[place + 1] + by
    end
    return packed(state.used, list, count, 0)
  end

  -- If all that has changed of a text are its header (which begins at `place`) and what stands behind
  -- its end: both; else nil.
  function window.patch(text, place, state)
    local gone = (state.from - place - HEADER_SIZE) / SIZE
    if state.body == text and gone <= MOST_GONE and state.from <= #text + 1 then
      return header(state, gone), state.added
    end
    return nil
  end

  function window.step(numbers, state, now)
    local used, horizon = state.used, now - numbers[FIRST + 1]
    if state.permits == 0 then
      return state
    end
    if state.last <= horizon then
      return window.start()
    end
    local gone, count = 0, older(state)
    while gone < count do
      local _, last, permits = entry(state, gone)
      if last > horizon then
        break
      end
      used = used - permits
      gone = gone + 1
    end
    if gone == 0 then
      return state
    end
    local new = on(state, used, state.first, state.last, state.permits)
    new.from = state.from + gone * SIZE
    return new
  end

  -- The answer of `take` under another limit, at most the window's own: the moment booked for or nil, the
  -- state to keep, the wait after which to try again (-1: never), permits remaining, time to the reset.
  function window.take_within(limit, numbers, state, now, cost, max_wait, from)
    local _, period, grain = unpack(numbers, FIRST)
    state = window.step(numbers, state, now)
    local at, excess = math.max(from, now), state.used + cost - limit
    if cost > limit then
      return nil, state, -1, left(limit, period, state, now)
    end
    if excess > 0 then
      at = math.max(at, free_at(state, excess, period))
    end
    if at - now > max_wait then
      return nil, state, at - now - max_wait, left(limit, period, state, now)
    end
    local new = with(state, at, cost, grain)
    return at, new, 0, left(limit, period, new, now)
  end

  function window.take(numbers, state, now, cost, max_wait, from)
    local at, new, retry, remaining, reset =
      window.take_within(numbers[FIRST], numbers, state, now, cost, max_wait, from)
    return at, new, struct.pack("<ddd", retry, remaining, reset)
  end

  -- Without the oldest `gone` permits.
  function window.without_oldest(state, gone)
    gone = math.min(math.max(0, gone), state.used)
    if gone == 0 then
      return state
    end
    local used, list, count = state.used - gone, entries(state)
    local kept, size = {}, 0
    for place = 1, 3 * count, 3 do
      local permits = list[place + 2]
      local less = math.min(gone, permits)
      gone = gone - less
      if permits > less then
        kept[size + 1], kept[size + 2], kept[size + 3] = list[place], list[place + 1], permits - less
        size = size + 3
      end
    end
    return size > 0 and packed(used, kept, size / 3, 0) or window.start()
  end

  -- As if `cost` permits more were no debt: the oldest are forgotten for them.
  function window.with_room(numbers, state, now, cost)
    state = window.step(numbers, state, now)
    return window.without_oldest(state, state.used + cost - numbers[FIRST])
  end

  function window.charge(numbers, state, now, cost)
    state = window.step(numbers, state, now)
    cost = math.min(cost, 2 * numbers[FIRST] - state.used)
    return cost > 0 and with(state, now, cost, numbers[FIRST + 2]) or state
  end

  function window.give_back(numbers, state, now, cost, at)
    state = window.step(numbers, state, now)
    local list, count = entries(state)
    for place = 1, 3 * count, 3 do
      if state.permits > 0 and list[place] <= at and at <= list[place + 1] then
        local back = math.min(cost, list[place + 2])
        list[place + 2] = list[place + 2] - back
        if list[place + 2] == 0 then
          for _ = 1, 3 do
            table.remove(list, place)
          end
          count = count - 1
        end
        return count > 0 and packed(state.used - back, list, count, 0) or window.start()
      end
    end
    return state
  end

  function window.forget_at(numbers, state)
    return state.permits > 0 and state.last + numbers[FIRST + 1] or 0
  end

  return window
end
