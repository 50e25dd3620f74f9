-- The log of a sliding window where more of it changes than its ends: taken apart and put together again.
-- Uses _packed_log.lua, _hit_entry.lua.

makers.hit_log = function()
  local hits = {}

  -- All entries as {first, last, permits, first, ...}, and their number.
  local function entries(log)
    local body, from, count = log.body, log.from, older_count(log, SIZE)
    local in_body = math.max(0, #body - from + 1) / SIZE
    local list = {struct.unpack("<" .. FIELDS:rep(in_body), body, math.min(from, #body + 1))}
    for index = in_body, count - 1 do
      local place = 3 * index
      list[place + 1], list[place + 2], list[place + 3] = older_entry(log, index, ENTRY, SIZE)
    end
    list[3 * count + 1], list[3 * count + 2], list[3 * count + 3] = log.first, log.last, log.permits
    return list, count + 1
  end

  -- Merge neighbours, oldest first, while their last hit lies within a grain of the group's first.
  local function merge(list, count, grain)
    local kept, group, last, permits = 0, unpack(list, 1, 3)
    for place = 4, 3 * count, 3 do
      local next_last, more = list[place + 1], list[place + 2]
      if next_last - group <= grain and permits + more <= MAX_PERMITS then
        last, permits = next_last, permits + more
      else
        list[kept + 1], list[kept + 2], list[kept + 3] = group, last, permits
        kept, group, last, permits = kept + 3, list[place], next_last, more
      end
    end
    list[kept + 1], list[kept + 2], list[kept + 3] = group, last, permits
    return kept / 3 + 1
  end

  -- Entries packed, merged if they are more than 64.
  local function packed(used, list, count, grain)
    if count > EXACT_ENTRIES then
      count = merge(list, count, grain)
    end
    while count > EXACT_ENTRIES + 1 do
      if grain == 0 or grain > LAST then
        error("a broken log", 0) -- its entries would never be few enough
      end
      grain = grain * 2
      count = merge(list, count, grain)
    end
    local newest = 3 * count - 2
    local body = struct.pack("<" .. FIELDS:rep(count - 1), unpack(list, 1, newest - 1))
    return with_newest({body = body, from = 1, added = ""}, used, unpack(list, newest, newest + 2))
  end

  -- With neighbours merged; itself if none are near enough, for then nothing of it has to be written anew.
  function hits.merged(log, grain)
    local list, count = entries(log)
    local kept = merge(list, count, grain)
    if kept == count and count <= EXACT_ENTRIES + 1 then
      return log
    end
    return packed(log.used, list, kept, grain)
  end

  -- With a hit that lies before its end (others are booked ahead).
  function hits.inserted(log, at, cost, grain)
    local list, count = entries(log)
    local used = log.used + cost
    for place = 1, 3 * count, 3 do
      local first, last, permits = unpack(list, place, place + 2)
      if at < first or permits + cost > MAX_PERMITS then
        for behind = 3 * count, place, -1 do
          list[behind + 3] = list[behind]
        end
        list[place], list[place + 1], list[place + 2] = at, at, cost
        return packed(used, list, count + 1, grain)
      end
      if at <= last then
        list[place + 2] = permits + cost
        return packed(used, list, count, grain)
      end
    end
  end

  -- As if all hits had been so much earlier.
  function hits.shifted(log, by)
    local list, count = entries(log)
    for place = 1, 3 * count, 3 do
      list[place], list[place + 1] = list[place] + by, list[place + 1] + by
    end
    return packed(log.used, list, count, 0)
  end

  -- Without `cost` of the permits at a moment; itself if they are not there, nil if nothing is left.
  function hits.without_hit(log, at, cost)
    local list, count = entries(log)
    for place = 1, 3 * count, 3 do
      if list[place] <= at and at <= list[place + 1] then
        local back = math.min(cost, list[place + 2])
        list[place + 2] = list[place + 2] - back
        if list[place + 2] == 0 then
          for _ = 1, 3 do
            table.remove(list, place)
          end
          count = count - 1
        end
        return count > 0 and packed(log.used - back, list, count, 0) or nil
      end
    end
    return log
  end

  -- Without the oldest `gone` permits; nil if nothing is left.
  function hits.without_oldest(log, gone)
    local used, list, count = log.used - gone, entries(log)
    local kept, size = {}, 0
    for place = 1, 3 * count, 3 do
      local permits = list[place + 2]
      local less = math.min(gone, permits)
      gone = gone - less
      if permits > less then
        kept[size + 1], kept[size + 2], kept[size + 3] = list[place], list[place + 1], permits - less
        size = size + 3
      end
    end
    return size > 0 and packed(used, kept, size / 3, 0) or nil
  end

  return hits
end
