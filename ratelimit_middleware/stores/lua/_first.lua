-- Ports of the limiters, and the one step that books any number of checks together. The files of this
-- folder are joined into one script; each algorithm has the steps and the names of its Python module.
--
-- KEYS: the buckets. ARGV: the time for tests or ""; what to do; what that needs to know; then the checks,
-- each as its numbers (13 packed doubles or more), its kind, what its entries begin with, and, if it adopts a
-- foreign entry, that entry and the state to use instead.
--
-- An entry is what it begins with (the numbers that wrote it), the moment it was written, and the state.
-- All times are whole microseconds. No number is ever written as text.

local LAST = 2 ^ 52 -- the last moment that is counted

-- A script is run from its first line in each call, and every function in its way costs. So what is not needed by
-- every call is put together when it is first asked for: `define` runs the file that has the maker.
local makers, made = {}, {}
local define

-- By its name; one that is based on another by both names, such as "related gcra".
local function the(name)
  if not made[name] then
    local space = name:find(" ", 1, true)
    local maker = space and name:sub(1, space - 1) or name
    if not makers[maker] then
      define(maker)
    end
    made[name] = makers[maker](space and the(name:sub(space + 1)))
  end
  return made[name]
end
