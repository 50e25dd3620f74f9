-- Permits counted per slot of time, as {slot, permits, slot, permits, ...} in order.

makers.slots = function()
  local slots = {}
  local TOGETHER = 200

  -- Without the slots before this one; a copy.
  function slots.since(counts, slot)
    local new = {}
    for place = 1, #counts, 2 do
      if counts[place] >= slot then
        new[#new + 1], new[#new + 2] = counts[place], counts[place + 1]
      end
    end
    return new
  end

  function slots.total(counts)
    local permits = 0
    for place = 2, #counts, 2 do
      permits = permits + counts[place]
    end
    return permits
  end

  function slots.count_at(counts, slot)
    for place = 1, #counts, 2 do
      if counts[place] == slot then
        return counts[place + 1]
      end
    end
    return 0
  end

  function slots.added(counts, slot, permits)
    local new = slots.since(counts, 0)
    local place = #new + 1
    while place > 1 and new[place - 2] > slot do
      place = place - 2
    end
    if place > 1 and new[place - 2] == slot then
      new[place - 1] = new[place - 1] + permits
    else
      table.insert(new, place, permits)
      table.insert(new, place, slot)
    end
    return new
  end

  function slots.removed(counts, slot, permits)
    local new = slots.since(counts, 0)
    for place = 1, #new, 2 do
      if new[place] == slot then
        new[place + 1] = new[place + 1] - permits
        if new[place + 1] <= 0 then
          table.remove(new, place)
          table.remove(new, place)
        end
        break
      end
    end
    return new
  end

  -- What lies in slots that have not begun any more counts in the present one.
  function slots.gathered(counts, present)
    local new, moved = {}, 0
    for place = 1, #counts, 2 do
      if counts[place] < present then
        new[#new + 1], new[#new + 2] = counts[place], counts[place + 1]
      else
        moved = moved + counts[place + 1]
      end
    end
    return moved > 0 and slots.added(new, present, moved) or new
  end

  -- In pieces: a function takes no more than some thousand arguments.
  function slots.pack(head, counts)
    local pieces = {head}
    for first = 1, #counts, TOGETHER do
      local last = math.min(first + TOGETHER - 1, #counts)
      table.insert(pieces, struct.pack("<" .. ("d"):rep(last - first + 1), unpack(counts, first, last)))
    end
    return table.concat(pieces)
  end

  function slots.unpack(text, place)
    if (#text - place + 1) % 16 ~= 0 then
      error("a broken entry", 0) -- a slot without permits
    end
    local counts = {}
    while place + 7 <= #text do
      counts[#counts + 1], place = struct.unpack("<d", text, place)
    end
    return counts
  end

  return slots
end
