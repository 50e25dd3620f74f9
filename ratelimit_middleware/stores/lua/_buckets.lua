-- The buckets of a call. Entries are read once and written once, at the end: until then nothing has happened.

local buckets = {}
local objects = false -- the server lets nobody read, whatever the bucket

local function bucket_of(check)
  local key = check.key
  local bucket = buckets[key]
  if not bucket then
    local entry = redis.pcall("GET", KEYS[key])
    if type(entry) == "table" then
      objects = objects or not entry.err:find("WRONGTYPE", 1, true)
      error(entry.err, 0)
    end
    bucket = {entry = entry, head = nil, state = nil, check = nil, is_new = nil, read_as = nil}
    buckets[key] = bucket
  end
  return bucket
end

local function entry_of(bucket, now)
  if bucket.is_new then
    return bucket.check.algorithm.pack(bucket.head .. struct.pack("<d", now), bucket.state)
  end
  return bucket.entry
end

local function keep(check, state)
  local bucket = buckets[check.key]
  bucket.head, bucket.state, bucket.check, bucket.is_new = check.head, state, check, true
end

-- The state that stands in a text behind the moment it was written. If the clock has gone back since then
-- (another server, an operator), the state goes back with it, for good: the time between counts for nobody.
local function read_state(check, text, place, now)
  local wrote, begins = struct.unpack("<d", text, place)
  local state = check.algorithm.unpack(text, begins)
  if wrote > now then
    state = check.algorithm.shifted(check.numbers, state, now - wrote, now)
    keep(check, state)
  end
  return state
end

-- The bucket's state in the check's own numbers; nil for a foreign entry that the client has to adopt.
local function load(check, now)
  local bucket = bucket_of(check)
  if bucket.head == check.head then
    return bucket.state
  end
  local entry = entry_of(bucket, now)
  if not entry then
    return check.algorithm.start(check.numbers, now)
  end
  local size = #check.head
  if entry:sub(1, size) == check.head then
    bucket.read_as = not bucket.is_new and check.head
    bucket.head, bucket.state = check.head, read_state(check, entry, size + 1, now)
    return bucket.state
  end
  if entry == check.foreign then
    check.adopts = true
    return read_state(check, check.adopted, 1, now)
  end
  return nil
end

-- Change as little of an entry as can be: true if that was possible.
local function patched(key, bucket, ttl, now)
  local patch = bucket.check.algorithm.patch
  if not patch or bucket.head ~= bucket.read_as then
    return false
  end
  local header, added = patch(bucket.entry, #bucket.head + 9, bucket.state)
  if not header then
    return false
  end
  redis.call("SETRANGE", key, #bucket.head, struct.pack("<d", now) .. header)
  if added ~= "" then
    redis.call("APPEND", key, added)
  end
  redis.call("PEXPIRE", key, ttl)
  return true
end

-- Write what has changed, each entry with a time to live; a time for tests stands while keys grow old.
local function write(now)
  local grace = ARGV[1] == "" and 1 or 60000
  for index, bucket in pairs(buckets) do
    if bucket.is_new then
      local check = bucket.check
      local forget_at = check.algorithm.forget_at(check.numbers, bucket.state)
      local left = math.min(forget_at, LAST) - now
      local ttl = ("%.0f"):format(math.max(0, math.ceil(left / 1000)) + grace)
      if left <= 0 and grace == 1 then
        if bucket.entry then
          redis.call("DEL", KEYS[index])
        end
      elseif not patched(KEYS[index], bucket, ttl, now) then
        redis.call("SET", KEYS[index], entry_of(bucket, now), "PX", ttl)
      end
    end
  end
end
