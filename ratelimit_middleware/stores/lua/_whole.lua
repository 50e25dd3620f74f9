-- Whole numbers of any size, for what a double cannot hold: lists of 24 bits each, the lowest first.

makers.whole = function()
  local whole = {}
  local BASE = 2 ^ 24

  -- What stands among a check's numbers: how many pieces, and the pieces; with the place behind them.
  function whole.read(numbers, place)
    local pieces = numbers[place]
    return {unpack(numbers, place + 1, place + pieces)}, place + pieces + 1
  end

  function whole.of(number)
    local pieces = {}
    repeat
      local rest = math.fmod(number, BASE)
      pieces[#pieces + 1], number = rest, (number - rest) / BASE
    until number == 0 or number ~= number -- of a broken entry
    return pieces
  end

  -- About as large.
  function whole.value(pieces)
    local value = 0
    for place = #pieces, 1, -1 do
      value = value * BASE + pieces[place]
    end
    return value
  end

  local function carried(pieces)
    local carry = 0
    for place = 1, #pieces do
      local sum = pieces[place] + carry
      pieces[place] = math.fmod(sum, BASE)
      carry = (sum - pieces[place]) / BASE
    end
    while carry > 0 do
      local rest = math.fmod(carry, BASE)
      pieces[#pieces + 1], carry = rest, (carry - rest) / BASE
    end
    return pieces
  end

  function whole.plus(a, b)
    local sum = {}
    for place = 1, math.max(#a, #b) do
      sum[place] = (a[place] or 0) + (b[place] or 0)
    end
    return carried(sum)
  end

  -- 2^48 for each pair of pieces: exact for numbers of up to 32 pieces.
  function whole.times(a, b)
    local product = {}
    for place = 1, #a + #b - 1 do
      product[place] = 0
    end
    for i = 1, #a do
      for j = 1, #b do
        product[i + j - 1] = product[i + j - 1] + a[i] * b[j]
      end
    end
    return carried(product)
  end

  local function is_less(a, b)
    for place = math.max(#a, #b), 1, -1 do
      local x, y = a[place] or 0, b[place] or 0
      if x ~= y then
        return x < y
      end
    end
    return false
  end

  -- a / b rounded up, where that is below 2^52.
  function whole.quotient_up(a, b)
    local quotient = math.floor(whole.value(a) / whole.value(b))
    while is_less(whole.times(whole.of(quotient), b), a) do
      quotient = quotient + 1
    end
    while quotient > 0 and not is_less(whole.times(whole.of(quotient - 1), b), a) do
      quotient = quotient - 1
    end
    return quotient
  end

  return whole
end
