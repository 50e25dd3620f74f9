-- Related and RelatedCharge: a limit that other requests use up than those it refuses. Both work on the
-- limit's own buckets: state and numbers are those of the limit, and the last number is the longest debt.

-- The port of a limit with other steps.
local function based_on(limit, steps)
  return setmetatable(steps, {__index = limit})
end

function makers.related(limit)
  local related = {}

  -- It takes nothing: time passes.
  local function step(numbers, state, now)
    return limit.step and limit.step(numbers, state, now) or state
  end

  function related.take(numbers, state, now, cost, max_wait, from)
    local at, _, told = limit.take(numbers, state, now, cost, max_wait, from)
    return at, step(numbers, state, now), told
  end

  related.charge, related.give_back = step, step
  return based_on(limit, related)
end

function makers.related_charge(limit)
  local charge = {}

  -- A window that is full forgets its oldest permits for the new ones.
  function charge.charge(numbers, state, now, cost)
    if limit.with_room then
      state = limit.with_room(numbers, state, now, cost)
    end
    return limit.charge(numbers, state, now, cost)
  end

  function charge.take(numbers, state, now, cost, _, from)
    local at = math.max(now, from)
    local booked, new, told = limit.take(numbers, state, now, cost, at - now, from)
    if not booked then
      new = charge.charge(numbers, state, now, cost)
    end
    return at, new, told
  end

  -- It has never cost more than the longest debt.
  function charge.give_back(numbers, state, now, cost, at)
    return limit.give_back(numbers, state, now, math.min(cost, numbers[#numbers]), at)
  end

  return based_on(limit, charge)
end
