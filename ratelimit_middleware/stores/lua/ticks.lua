-- Arithmetic without rounding. Moments finer than a microsecond are whole microseconds and so many of `parts`
-- parts of one more. Every number stays below 2^53, where a double holds all whole numbers.

local LAST = 2 ^ 52

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

-- a * b / c rounded down, also where the product is beyond 2^53: bit by bit (a, b, c < 2^52).
local function product_over(a, b, c)
  if a * b < 2 ^ 53 then
    local product = a * b
    return (product - math.fmod(product, c)) / c
  end
  local whole, rest, bit = 0, 0, 2 ^ 51
  local each = (b - math.fmod(b, c)) / c
  while bit >= 1 do
    whole, rest = 2 * whole, 2 * rest
    if a >= bit then
      a = a - bit
      whole, rest = whole + each, rest + math.fmod(b, c)
    end
    while rest >= c do
      whole, rest = whole + 1, rest - c
    end
    bit = bit / 2
  end
  return whole
end
