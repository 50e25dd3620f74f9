-- What a call does.

-- What the work answers, or {-3, why} if a bucket cannot be read (a key of another type, a broken entry): those
-- who share the call have done nothing to it. What the server objects to is for all of them.
local function attempt_of(work, ...)
  local went, reply = pcall(work, ...)
  if went then
    return reply
  end
  if objects then
    error(reply, 0)
  end
  return {-3, tostring(reply)}
end

-- Each request all or nothing on its own; the argument says how many checks each has.
local function take_all(sizes, now)
  local reply = {now}
  for position = 1, #sizes do
    local size = sizes:byte(position)
    local checks = {}
    for place = 1, size do
      checks[place] = read_check()
    end
    table.insert(reply, attempt_of(take_request, checks, now))
  end
  return reply
end

local now
if ARGV[1] == "" then
  local seconds, us = unpack(redis.call("TIME"))
  now = seconds * 1000000 + us
else
  now = struct.unpack("<d", ARGV[1])
end
local reply
if ARGV[2] == "take" then
  reply = take_all(ARGV[3], now)
else
  reply = {now, attempt_of(the("actions")[ARGV[2]], ARGV[3], now)}
end
write(now)
return reply
