-- Moments finer than a microsecond, without rounding: whole microseconds and so many of `parts` parts of one
-- more. Every number stays below 2^53, where a double holds all whole numbers.

local function plus(us, part, more_us, more_part, parts)
  us, part = us + more_us, part + more_part
  if part >= parts then
    return us + 1, part - parts
  end
  return us, part
end

local function minus(us, part, less_us, less_part, parts)
  us, part = us - less_us, part - less_part
  if part < 0 then
    return us - 1, part + parts
  end
  return us, part
end

local function is_after(us, part, other_us, other_part)
  return us > other_us or (us == other_us and part > other_part)
end

local function later(us, part, other_us, other_part)
  if is_after(us, part, other_us, other_part) then
    return us, part
  end
  return other_us, other_part
end

local function earlier(us, part, other_us, other_part)
  if is_after(us, part, other_us, other_part) then
    return other_us, other_part
  end
  return us, part
end

local function ceil_us(us, part)
  return part > 0 and us + 1 or us
end
