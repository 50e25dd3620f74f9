-- What is asked less often.
function makers.actions()
  local actions = {}

  -- One request that starts after a wait at the soonest, since it waits for its buckets on other servers.
  function actions.take_later(detail, now)
    local checks, wait = {}, struct.unpack("<d", detail, 2)
    for place = 1, detail:byte() do
      checks[place] = read_check()
    end
    local obstacle = obstacles(checks, now)
    return obstacle or answer(checks, the("together")(checks, now, now + wait))
  end

  function actions.peek(_, now)
    local check = read_check()
    local obstacle = obstacles({check}, now)
    if obstacle then
      return obstacle
    end
    local granted = ask(check, check.state, now, 0, 0) ~= nil
    return answer({check}, granted, now)
  end

  function actions.charge(_, now)
    local check = read_check()
    local obstacle = obstacles({check}, now)
    if not obstacle then
      keep(check, check.algorithm.charge(check.numbers, check.state, now, check.cost))
    end
    return obstacle or {1}
  end

  function actions.give_back(packed_moment, now)
    local check = read_check()
    if not bucket_of(check).entry then
      return {0}
    end
    local obstacle = obstacles({check}, now)
    if not obstacle then
      local numbers, at = check.numbers, struct.unpack("<d", packed_moment)
      keep(check, check.algorithm.give_back(numbers, check.state, now, check.cost, at))
    end
    return obstacle or {1}
  end

  -- Only slots have a lease.
  function actions.renew(packed_moment, now)
    local check = read_check()
    local obstacle = obstacles({check}, now)
    local renew = check.algorithm.renew
    if not obstacle and renew then
      local numbers, at = check.numbers, struct.unpack("<d", packed_moment)
      keep(check, renew(numbers, check.state, now, check.cost, at))
    end
    return obstacle or {1}
  end

  return actions
end
