-- A log whose older entries stand packed, oldest first: in `body` from the place `from` on, and those that have
-- come since it was read in `added`. So the long text is neither taken apart nor put together in most calls.

-- Where the entries of a log begin, if so many at the front of those at `place` are gone.
local function log_begin(text, place, gone, size)
  local from = place + gone * size
  if from > #text + 1 or (#text + 1 - from) % size ~= 0 then
    error("a broken log", 0) -- its length would be any number
  end
  return from
end

local function older_count(log, size)
  return (#log.body + #log.added - log.from + 1) / size
end

-- What stands in an older entry, counted from 0.
local function older_entry(log, index, form, size)
  local place = log.from + index * size
  if place <= #log.body then
    return struct.unpack(form, log.body, place)
  end
  return struct.unpack(form, log.added, place - #log.body)
end

local function older_text(log)
  local body, from = log.body, log.from
  if from > #body then
    return log.added:sub(from - #body)
  end
  return (from == 1 and body or body:sub(from)) .. log.added
end

-- How many entries at the front of those at `place` are gone, if nothing else has changed between there and the
-- end of a text; nil if something has, or more than `most` are gone.
local function only_gone(log, text, place, size, most)
  local gone = (log.from - place) / size
  return log.body == text and gone <= most and log.from <= #text + 1 and gone or nil
end
