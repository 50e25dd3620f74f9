-- An entry of the hit log is its first hit, its last hit, and the permits.

local FIELDS, ENTRY, SIZE = "ddI4", "<ddI4", 20
local EXACT_ENTRIES, MAX_PERMITS = 64, 2 ^ 32 - 1

-- A log with the same older entries and another newest one.
local function with_newest(log, used, first, last, permits)
  return {
    used = used, first = first, last = last, permits = permits,
    body = log.body, from = log.from, added = log.added,
  }
end
