-- Several checks with one start time, all or nothing.
function makers.together()
  local MAX_ROUNDS = 8

  -- Take on top of what this attempt has taken already (two checks may share a bucket).
  local function take(attempt, check, now, max_wait, from)
    local held = attempt[check.key]
    local shares = held and held.check.head == check.head and held.check.algorithm == check.algorithm
    local at, new = ask(check, shares and held.state or check.state, now, max_wait, from)
    if at or not check.shadow then
      attempt[check.key] = {check = check, state = new}
    end
    return at
  end

  -- Search the common start time, from `asked` on: ask each at t, take the largest moment asked for, repeat.
  local function book(checks, now, asked)
    local max_wait = 0
    for _, check in ipairs(checks) do
      local wait = check.max_wait
      if wait ~= 0 and (max_wait == 0 or wait < max_wait) then
        max_wait = wait
      end
    end
    local start = asked
    local attempt, all
    for _ = 1, MAX_ROUNDS do
      start, attempt, all = asked, {}, true
      for _, check in ipairs(checks) do
        local waits = check.max_wait ~= 0
        local at = take(attempt, check, now, waits and max_wait or start - now, start)
        all = all and at
        if at and waits then
          asked = math.max(asked, at)
        end
      end
      if asked <= start then
        break
      end
    end
    if all and asked <= start then
      return attempt, start
    end
    return nil, start
  end

  local function take_together(checks, now, from)
    local enforcing, shadows = {}, {}
    for _, check in ipairs(checks) do
      table.insert(check.shadow and shadows or enforcing, check)
    end
    local booked, start = book(enforcing, now, from)
    local alone = booked or {}
    for _, check in ipairs(shadows) do
      take(alone, check, now, 0, now)
    end
    for _, held in pairs(alone) do
      keep(held.check, held.state)
    end
    return booked ~= nil, start
  end

  return take_together
end
