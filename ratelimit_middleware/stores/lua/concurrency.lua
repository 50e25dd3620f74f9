-- Concurrency: slots in use. Numbers: limit; lease (us). State: ticket, end of the lease and permits of each
-- slot, one after the other. It tells retry, remaining and reset itself.

makers.concurrency = function()
  local slots = {}
  local ASK_AGAIN = 1000000

  -- Leases that have ended are dropped, and the slot that stands at `left_out`: a new list, and its permits.
  local function running(state, now, left_out)
    local new, size, permits = {}, 0, 0
    for place = 1, #state, 3 do
      if state[place + 1] > now and place ~= left_out then
        local slot_permits = state[place + 2]
        new[size + 1], new[size + 2], new[size + 3] = state[place], state[place + 1], slot_permits
        size, permits = size + 3, permits + slot_permits
      end
    end
    return new, permits
  end

  -- Add a slot to a list that is nobody else's.
  local function add(new, at, until_us, cost)
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

  -- Nobody knows when a slot comes back.
  local function told(again, remaining, state)
    return struct.pack("<ddd", again, remaining, #state > 0 and ASK_AGAIN or 0)
  end

  function slots.take(numbers, state, now, cost, _, from)
    local limit, lease = unpack(numbers)
    local new, permits = running(state, now)
    local left = limit - permits
    if cost > left then
      return nil, new, told(cost <= limit and ASK_AGAIN or -1, math.max(0, left), new)
    end
    local at = math.max(now, from)
    if cost > 0 then
      add(new, at, at + lease, cost)
    end
    return at, new, told(0, left - cost, new)
  end

  function slots.charge(numbers, state, now, cost)
    local limit, lease = unpack(numbers)
    local new, permits = running(state, now)
    cost = math.min(cost, 2 * limit - permits)
    return cost > 0 and add(new, now, now + lease, cost) or new
  end

  function slots.give_back(_, state, now, cost, at)
    local found
    for place = 1, #state, 3 do
      local is_it = state[place] == at and state[place + 1] > now and state[place + 2] == cost
      if is_it and (not found or state[place + 1] < state[found + 1]) then
        found = place
      end
    end
    return (running(state, now, found))
  end

  function slots.renew(numbers, state, now, cost, at)
    local new = slots.give_back(numbers, state, now, cost, at)
    return add(new, at, math.max(at, now) + numbers[2], cost)
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
