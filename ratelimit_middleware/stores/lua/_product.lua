-- Products without rounding: every number stays below 2^53, where a double holds all whole numbers.

-- a * b / c rounded down, also where the product is beyond 2^53: bit by bit (a, b, c < 2^52).
local function product_over(a, b, c)
  if a * b < 2 ^ 53 then
    local product = a * b
    return (product - math.fmod(product, c)) / c
  end
  if not (c > 0) then
    error("a broken entry", 0)
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
