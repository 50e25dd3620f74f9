-- Penalty and Strike: who is refused again and again is blocked for a while, longer each time.
-- Numbers: refusals that are borne; quiet time after which all is forgotten; how many blocks there are, and
-- the time of each. State: refusals in a row, blocks so far, end of the last one, moment of the last refusal
-- that counted.

makers.penalty = function()
  local penalty = {}
  local CLEAN = {0, 0, 0, 0}

  function penalty.start()
    return CLEAN
  end

  function penalty.pack(head, state)
    return head .. struct.pack("<dddd", unpack(state))
  end

  function penalty.unpack(text, place)
    local refusals, level, until_us, last = struct.unpack("<dddd", text, place)
    return {refusals, level, until_us, last}
  end

  function penalty.shifted(_, state, by)
    return {state[1], state[2], state[3] + by, state[4] + by}
  end

  function penalty.forget_at(numbers, state)
    local is_clean = state[1] == 0 and state[2] == 0
    return is_clean and 0 or math.max(state[3], state[4]) + numbers[2]
  end

  local function step(numbers, state, now)
    return now >= penalty.forget_at(numbers, state) and CLEAN or state
  end

  function penalty.take(numbers, state, now, _, max_wait, from)
    state = step(numbers, state, now)
    local _, level, until_us, last = unpack(state)
    local at = math.max(now, from, until_us)
    if at - now > max_wait then
      return nil, state
    end
    return at, level > 0 and {0, level, until_us, last} or CLEAN
  end

  -- Costs do not matter: nothing is consumed.
  function penalty.charge(numbers, state, now)
    return step(numbers, state, now)
  end

  penalty.give_back = penalty.charge

  return penalty
end

makers.strike = function()
  local strike = {}
  for name, step in pairs(the("penalty")) do
    strike[name] = step
  end

  function strike.take(numbers, state, now)
    local after, _, blocks = unpack(numbers)
    local refusals, level, until_us, last = unpack(strike.charge(numbers, state, now))
    if now >= until_us then
      refusals, last = refusals + 1, now
      if refusals >= after then
        until_us = now + numbers[4 + math.min(level, blocks - 1)]
        refusals, level = 0, level + 1
      end
    end
    return now, {refusals, level, until_us, last}
  end

  return strike
end
