-- Concurrency: slots in use. Numbers: limit; lease (us). State: ticket, end of the lease and permits of each
-- slot, one after the other.

makers.concurrency = function()
  local slots = {}

  local function total(state)
    local permits = 0
    for place = 3, #state, 3 do
      permits = permits + state[place]
    end
    return permits
  end

  -- Leases that have ended are dropped, and the slot that stands at `left_out`.
  local function running(state, now, left_out)
    local new = {}
    for place = 1, #state, 3 do
      if state[place + 1] > now and place ~= left_out then
        for number = place, place + 2 do
          new[#new + 1] = state[number]
        end
      end
    end
    return new
  end

  local function with(state, at, until_us, cost)
    local new = running(state, -math.huge)
    local size = #new
    new[size + 1], new[size + 2], new[size + 3] = at, until_us, cost
    return new
  end

  function slots.start()
    return {}
  end

  function slots.pack(head, state)
    return head .. struct.pack("<" .. ("d"):rep(#state), unpack(state))
  end

  function slots.unpack(text, place)
    local state = {struct.unpack("<" .. ("d"):rep((#text - place + 1) / 8), text, place)}
    table.remove(state) -- the place behind them
    return state
  end

  -- Tickets stay: their holders know them.
  function slots.shifted(_, state, by)
    local new = running(state, -math.huge)
    for place = 2, #new, 3 do
      new[place] = new[place] + by
    end
    return new
  end

  function slots.take(numbers, state, now, cost, _, from)
    local limit, lease = unpack(numbers, FIRST)
    state = running(state, now)
    if cost > limit - total(state) then
      return nil, state
    end
    local at = math.max(now, from)
    return at, cost > 0 and with(state, at, at + lease, cost) or state
  end

  function slots.charge(numbers, state, now, cost)
    local limit, lease = unpack(numbers, FIRST)
    state = running(state, now)
    cost = math.min(cost, 2 * limit - total(state))
    return cost > 0 and with(state, now, now + lease, cost) or state
  end

  function slots.give_back(_, state, now, cost, at)
    state = running(state, now)
    local found
    for place = 1, #state, 3 do
      local is_it = state[place] == at and state[place + 2] == cost
      if is_it and (not found or state[place + 1] < state[found + 1]) then
        found = place
      end
    end
    return found and running(state, now, found) or state
  end

  function slots.renew(numbers, state, now, cost, at)
    state = slots.give_back(numbers, state, now, cost, at)
    return with(state, at, math.max(at, now) + numbers[FIRST + 1], cost)
  end

  function slots.forget_at(_, state)
    local last = 0
    for place = 2, #state, 3 do
      last = math.max(last, state[place])
    end
    return last
  end

  return slots
end
