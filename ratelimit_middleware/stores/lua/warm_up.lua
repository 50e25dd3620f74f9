-- WarmUp: Sentinel's warm-up controller.
-- Numbers: those of the bucket of cold; quota; window (us). State: tokens, the second they were last counted
-- in (ms), the recent passes. It tells retry, remaining and reset itself.

makers.warm_up = function()
  local warm_up, bucket, recent = {}, the("cold_bucket"), the("recent_passes")

  local function of(stored, filled_ms, passes)
    return {stored = stored, filled_ms = filled_ms, passes = passes}
  end

  local function permits(numbers, stored)
    return math.min(numbers[6], math.max(1, math.floor(bucket.rate(numbers, stored))))
  end

  function warm_up.start(numbers, now)
    local stored, filled_ms = bucket.cold_core(numbers, now)
    return of(stored, filled_ms, recent.empty(now))
  end

  local function own_text(state)
    return struct.pack("<dd", state.stored, state.filled_ms)
  end

  function warm_up.pack(head, state)
    return recent.pack(head .. own_text(state), state.passes)
  end

  function warm_up.unpack(text, place)
    local stored, filled_ms, behind = struct.unpack("<dd", text, place)
    return of(stored, filled_ms, recent.unpack(text, behind))
  end

  function warm_up.patch(text, place, state)
    local own = own_text(state)
    local header, added = recent.patch(text, place + #own, state.passes)
    return header and own .. header, added
  end

  function warm_up.shifted(_, state, by)
    local seconds = bucket.seconds_back(by)
    return of(state.stored, state.filled_ms + 1000 * seconds, recent.moved(state.passes, by, seconds))
  end

  -- The state as of a moment; itself if that is before its latest half second.
  local function advanced(numbers, state, at)
    local half, second, latest = recent.half_of(at), bucket.second_of(at), state.passes.half
    if half < latest or (half == latest and second * 1000 <= state.filled_ms) then
      return state
    end
    local passes = recent.shifted(state.passes, half)
    local before = recent.second_before(passes)
    local stored, filled_ms = bucket.synchronised(numbers, state.stored, state.filled_ms, second, before)
    return of(stored, filled_ms, passes)
  end

  function warm_up.step(numbers, state, now)
    state = advanced(numbers, state, now)
    return of(state.stored, state.filled_ms, recent.pruned(state.passes, now - numbers[7]))
  end

  -- Whether tokens have been counted between two states: a second that is left out would be lost.
  function warm_up.counted(before, after)
    return before.filled_ms ~= after.filled_ms
  end

  local function room_at(numbers, state, cost, limit)
    local passes = state.passes
    return recent.room_at(passes, passes.in_log + cost - limit, numbers[7])
  end

  -- `state` as of `at` already: its tokens are counted.
  local function passes_at(numbers, state, at, cost)
    local passed, before = state.passes.passed, recent.second_before(state.passes)
    local stored =
      bucket.synchronised(numbers, state.stored, state.filled_ms, bucket.second_of(at), before)
    return passed[1] + passed[2] + cost <= permits(numbers, stored)
  end

  -- The first moment from `from` on at which `cost` permits are to be had if nobody comes.
  local function first(numbers, state, from, cost)
    local quota = numbers[6]
    if cost > quota then
      return nil
    end
    local latest, half = state.passes.half, recent.half_of(from)
    if half < latest then
      local limit = permits(numbers, state.stored)
      local at = math.max(from, room_at(numbers, state, cost, limit))
      if recent.half_of(at) < latest and cost <= limit then
        return at
      end
      half = latest
    end
    if half > LAST then
      error("a broken entry", 0) -- one more would be the same, and the loop endless
    end
    local room = room_at(numbers, state, cost, quota)
    for ahead = half, half + 2 do
      local at = math.max(from, ahead * 500000, room)
      local in_time = recent.half_of(at) == ahead or ahead == half + 2
      if in_time and passes_at(numbers, advanced(numbers, state, at), at, cost) then
        return at
      end
    end
    return nil
  end

  local function booked(numbers, state, at, cost)
    state = advanced(numbers, state, at)
    return of(state.stored, state.filled_ms, recent.booked(state.passes, at, cost))
  end

  -- Permits left, and the wait for the next one (`next_at` if known) or for all of them.
  local function left(numbers, state, now, next_at)
    local passes, window = state.passes, numbers[7]
    local threshold = permits(numbers, state.stored)
    local free = math.min(threshold - passes.passed[1] - passes.passed[2], numbers[6] - passes.in_log)
    if recent.half_of(now) < passes.half then
      free = threshold - passes.in_log
    end
    if free > 0 then
      return free, passes.permits > 0 and passes.at + window - now or 0
    end
    next_at = next_at or first(numbers, state, now, 1)
    return 0, next_at and next_at - now or window
  end

  function warm_up.take(numbers, state, now, cost, max_wait, from)
    state = warm_up.step(numbers, state, now)
    local at = first(numbers, state, math.max(now, from), cost)
    if not at or at - now > max_wait then
      local next_at = cost == 1 and from <= now and at or nil
      return nil, state, struct.pack("<ddd", at and at - now - max_wait or -1, left(numbers, state, now, next_at))
    end
    state = booked(numbers, state, at, cost)
    return at, state, struct.pack("<ddd", 0, left(numbers, state, now))
  end

  function warm_up.charge(numbers, state, now, cost)
    state = warm_up.step(numbers, state, now)
    cost = math.min(cost, 2 * numbers[6] - state.passes.in_log)
    return cost > 0 and booked(numbers, state, now, cost) or state
  end

  function warm_up.give_back(numbers, state, now, cost, at)
    state = warm_up.step(numbers, state, now)
    return of(state.stored, state.filled_ms, recent.unbooked(state.passes, at, cost))
  end

  function warm_up.forget_at(numbers, state)
    local passes = state.passes
    local empty = passes.permits > 0 and passes.at + numbers[7] or 0
    local missing = numbers[3] - state.stored + passes.passed[1] + passes.passed[2]
    if missing == 0 or numbers[1] == 0 then
      return empty
    end
    local cold = bucket.full_in(numbers, state.filled_ms, missing)
    return math.max(math.max(cold, math.floor(passes.half / 2) + 2) * 1000000, empty)
  end

  return warm_up
end
