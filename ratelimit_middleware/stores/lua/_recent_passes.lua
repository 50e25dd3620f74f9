-- What WarmUp knows of the past: passes per half second, and the log of one window.
-- Fields: index of the latest half second (`half`), the passes in it and in the three before (`passed`), the
-- permits in the log (`in_log`); its newest entry (`at`, `permits`; 0 permits = an empty log); the older
-- ones, packed.
-- Uses _packed_log.lua.

makers.recent_passes = function()
  local recent = {}
  local ENTRY, SIZE, HEADER, HEADER_SIZE = "<dd", 16, "<ddddddddI4", 68
  local MOST_GONE, MAX_ENTRIES = 64, 1001

  function recent.half_of(at)
    return math.floor(at / 500000)
  end

  local function ms_of(at)
    return math.floor(at / 1000)
  end

  function recent.empty(now)
    return {
      half = recent.half_of(now), passed = {0, 0, 0, 0}, in_log = 0, at = 0, permits = 0,
      body = "", from = 1, added = "",
    }
  end

  local function copy(passes)
    return {
      half = passes.half, passed = {unpack(passes.passed)}, in_log = passes.in_log, at = passes.at,
      permits = passes.permits, body = passes.body, from = passes.from, added = passes.added,
    }
  end

  -- All entries as {at, permits, at, permits, ...}.
  local function entries(passes)
    local list = {}
    for index = 0, older_count(passes, SIZE) - 1 do
      list[#list + 1], list[#list + 2] = older_entry(passes, index, ENTRY, SIZE)
    end
    if passes.permits > 0 then
      list[#list + 1], list[#list + 2] = passes.at, passes.permits
    end
    return list
  end

  -- Put a list of entries in the place of the log.
  local function keep(passes, list)
    local count, texts = #list, {}
    for place = 1, count - 3, 2 do
      texts[#texts + 1] = struct.pack(ENTRY, list[place], list[place + 1])
    end
    passes.at, passes.permits = list[count - 1] or 0, list[count] or 0
    passes.body, passes.from, passes.added = table.concat(texts), 1, ""
  end

  -- The half seconds as seen from `half`; a moment before the latest changes nothing.
  function recent.shifted(passes, half)
    local ahead = half - passes.half
    if ahead <= 0 then
      return passes
    end
    local new = copy(passes)
    new.half = half
    for ago = 4, 1, -1 do
      new.passed[ago] = passes.passed[ago - ahead] or 0
    end
    return new
  end

  -- Passes in the calendar second before the one of the latest half second.
  function recent.second_before(passes)
    local second = math.fmod(passes.half, 2) == 1 and 3 or 2
    return passes.passed[second] + passes.passed[second + 1]
  end

  -- Without the log entries of `horizon` and before.
  function recent.pruned(passes, horizon)
    if passes.permits == 0 then
      return passes
    end
    local new = passes
    if passes.at <= horizon then
      new = copy(passes)
      new.in_log = 0
      keep(new, {})
      return new
    end
    local gone, in_log, count = 0, passes.in_log, older_count(passes, SIZE)
    while gone < count do
      local at, permits = older_entry(passes, gone, ENTRY, SIZE)
      if at > horizon then
        break
      end
      gone, in_log = gone + 1, in_log - permits
    end
    if gone > 0 then
      new = copy(passes)
      new.from, new.in_log = passes.from + gone * SIZE, in_log
    end
    return new
  end

  -- The moment at which the oldest `excess` permits of the log are a window old.
  function recent.room_at(passes, excess, window)
    if excess <= 0 then
      return 0
    end
    for index = 0, older_count(passes, SIZE) - 1 do
      local at, permits = older_entry(passes, index, ENTRY, SIZE)
      excess = excess - permits
      if excess <= 0 then
        return at + window
      end
    end
    return passes.at + window
  end

  -- A hit that does not lie behind the end of the log, or makes it too long.
  local function inserted(passes, at, permits)
    local list = entries(passes)
    local place = #list + 1
    while place > 1 and ms_of(list[place - 2]) > ms_of(at) do
      place = place - 2
    end
    if place > 1 and ms_of(list[place - 2]) == ms_of(at) then
      list[place - 2], list[place - 1] = math.max(list[place - 2], at), list[place - 1] + permits
    else
      table.insert(list, place, permits)
      table.insert(list, place, at)
    end
    if #list > 2 * MAX_ENTRIES then
      list[4] = list[2] + list[4]
      table.remove(list, 1)
      table.remove(list, 1)
    end
    keep(passes, list)
  end

  local function log(passes, at, permits)
    if passes.permits == 0 then
      passes.at, passes.permits = at, permits
    elseif ms_of(at) == ms_of(passes.at) then
      passes.at, passes.permits = math.max(passes.at, at), passes.permits + permits
    elseif at > passes.at and older_count(passes, SIZE) + 1 < MAX_ENTRIES then
      passes.added = passes.added .. struct.pack(ENTRY, passes.at, passes.permits)
      passes.at, passes.permits = at, permits
    else
      inserted(passes, at, permits)
    end
  end

  -- With `cost` permits that pass at a moment; one older than the half seconds counts in the log.
  function recent.booked(passes, at, cost)
    local half = recent.half_of(at)
    local new = copy(recent.shifted(passes, half))
    local ago = new.half - half
    if ago < 4 then
      new.passed[1 + ago] = new.passed[1 + ago] + cost
    end
    new.in_log = new.in_log + cost
    log(new, at, cost)
    return new
  end

  -- Without `cost` of the permits booked for a moment; unchanged if they are not in the log.
  function recent.unbooked(passes, at, cost)
    local list = entries(passes)
    for place = 1, #list, 2 do
      if ms_of(list[place]) == ms_of(at) then
        local new, back = copy(passes), math.min(cost, list[place + 1])
        local ago = passes.half - recent.half_of(at)
        if 0 <= ago and ago < 4 then
          new.passed[1 + ago] = math.max(0, new.passed[1 + ago] - back)
        end
        new.in_log = passes.in_log - back
        list[place + 1] = list[place + 1] - back
        if list[place + 1] == 0 then
          table.remove(list, place)
          table.remove(list, place)
        end
        keep(new, list)
        return new
      end
    end
    return passes
  end

  -- As if everything had been earlier: the log by `by`, the half seconds by whole seconds.
  function recent.moved(passes, by, seconds)
    local new, list = copy(passes), entries(passes)
    for place = 1, #list, 2 do
      list[place] = list[place] + by
    end
    new.half = passes.half + 2 * seconds
    keep(new, list)
    return new
  end

  local function header(passes, gone)
    local p = passes.passed
    return struct.pack(
      HEADER, passes.half, p[1], p[2], p[3], p[4], passes.in_log, passes.at, passes.permits, gone
    )
  end

  function recent.pack(head, passes)
    return head .. header(passes, 0) .. older_text(passes)
  end

  function recent.unpack(text, place)
    local half, n0, n1, n2, n3, in_log, at, permits, gone, behind = struct.unpack(HEADER, text, place)
    return {
      half = half, passed = {n0, n1, n2, n3}, in_log = in_log, at = at, permits = permits,
      body = text, from = log_begin(text, behind, gone, SIZE), added = "",
    }
  end

  -- If all that has changed of a text are its header (which begins at `place`) and what stands behind
  -- its end: both; else nil.
  function recent.patch(text, place, passes)
    local gone = only_gone(passes, text, place + HEADER_SIZE, SIZE, MOST_GONE)
    if gone then
      return header(passes, gone), passes.added
    end
    return nil
  end

  return recent
end
