-- ---------------------------------------------------------------------------------------------
-- Numbers in strings; what fits which version
-- ---------------------------------------------------------------------------------------------

local byte = string.byte
local TWO32 = 4294967296
local EXACT = 9007199254740992   -- numbers above it are all the same here

local function u32(s, at)         -- `at` counts from 0
  local a, b, c, d = byte(s, at + 1, at + 4)
  return a + b * 256 + c * 65536 + d * 16777216
end

local function u64(s, at)
  local high = u32(s, at + 4)
  if high >= 2097152 then return EXACT end
  return u32(s, at) + high * TWO32
end

local function text_of(s, at)     -- the NUL-terminated name at `at`
  return s:sub(at + 1, at + 64):match("^[^%z]*") or ""
end

-- Nodes and tensors that a graph payload of `size` bytes claims; nil if that does not add up.
local function graph_counts(s, from, size, shape)
  local at = from + shape.device_at + (shape.device_at == 0 and 4 or 1)
  local fixed = at - from + 8
  if #s < at + 4 or size < fixed then return nil end
  local nodes = u32(s, at)
  local rest = size - fixed - 8 * nodes
  if rest < 0 or rest % shape.layout.size ~= 0 then return nil end
  local tensors = math.floor(rest / shape.layout.size)
  if nodes > tensors then return nil end
  local second = at + 4 + 8 * nodes
  if #s >= second + 4 and u32(s, second) ~= tensors then return nil end
  return nodes, tensors, second + 4
end

-- How convincing a record's first bytes are: nil: it is none; 0: too short; 2 or 3.
local function record_points(s, at, layout)
  if #s < at + layout.at.op + 4 then return 0 end
  local ne, nb = at + layout.at.ne, at + layout.at.nb
  local kind = u32(s, at + 8)
  if (u32(s, at) == 0 and u32(s, at + 4) == 0) or kind >= 512
    or u32(s, at + layout.at.op) >= 256 then return nil end
  for i = 0, 3 do
    if u32(s, ne + 4 * i) == 0 then return nil end
  end
  local size, block = TYPE_SIZE[kind], TYPE_BLOCK[kind]
  if not size then return 2 end
  local ne0, nb0, nb1 = u32(s, ne), u32(s, nb), u32(s, nb + 4)
  if nb0 < size or ne0 % block ~= 0 then return nil end
  local row = size * math.floor(ne0 / block) % TWO32
  if nb0 == size and nb1 == row and row > 0 and u32(s, nb + 8) == nb1 * u32(s, ne + 4) % TWO32 then
    return 3
  end
  return 2
end

-- Bytes from a tensor's first to its last element; 0 where the type is unknown.
local function tensor_bytes(s, at, layout)
  local kind = u32(s, at + 8)
  local size, block = TYPE_SIZE[kind], TYPE_BLOCK[kind]
  if not size then return 0, 1, 0 end
  local ne, nb = at + layout.at.ne, at + layout.at.nb
  local largest, total = u32(s, nb), 0
  for i = 1, 3 do
    local stride = u32(s, nb + 4 * i)
    if stride > largest then largest = stride end
    total = total + (u32(s, ne + 4 * i) - 1) * stride
  end
  if block == 1 then
    return total + size + (u32(s, ne) - 1) * u32(s, nb), size, largest
  end
  return total + math.floor(u32(s, ne) * u32(s, nb) / block), size, largest
end

-- Whether the data of a SET_TENSOR lies within its tensor.
local function data_fits(s, from, size, shape)
  local record = from + shape.tensor_at
  if #s < from + shape.offset_at + 8 then return true end
  local total, unit, largest = tensor_bytes(s, record, shape.layout)
  if total <= 0 then return true end
  local moved = size - shape.data_at
  return (u64(s, from + shape.offset_at) + moved <= total or largest >= 2147483648)
    and moved % unit == 0
end

local function fitting(shape, size)
  if shape.fixed >= 0 then return size == shape.fixed end
  return size >= shape.least and size <= (shape.graph and MOST_GRAPH or MOST_SEARCHED)
end

-- Whether a request of `size` payload bytes, which begin at s[from], fits a shape.
local function fits(shape, s, from, size)
  if not fitting(shape, size) then return false end
  if shape.graph then
    if #s < from + shape.least - 4 then return true end
    return graph_counts(s, from, size, shape) ~= nil
  end
  if shape.data_at >= 0 and shape.tensor_at == 0 then return data_fits(s, from, size, shape) end
  return true
end

local function readable(shape, s, from, size)
  local at = shape.tensor_at >= 0 and from + shape.tensor_at
  if shape.graph then
    local _, tensors, first = graph_counts(s, from, size, shape)
    at = tensors and tensors > 0 and first
  end
  return not at or record_points(s, at, shape.layout) ~= nil
end

-- The best that any version makes of one request: nil: nothing; 1 by size alone, 2 or 3.
local function request_points(s, from, cmd, size, dialects)
  local best
  for _, d in ipairs(dialects) do
    local shape = d.commands[cmd]
    if shape and fitting(shape, size) then
      local points = 1
      if shape.graph then
        local nodes = graph_counts(s, from, size, shape)
        points = nodes and nodes > 0 and 3 or nil
      elseif shape.tensor_at >= 0 then
        points = record_points(s, from + shape.tensor_at, shape.layout)
        if points and points > 0 and shape.data_at >= 0 and not data_fits(s, from, size, shape) then
          points = nil
        end
      end
      if points and (not best or points > best) then best = points end
    end
  end
  return best
end

-- How convincing it is that requests begin at s[at]: follows the chain within `s`.
local function judge(s, at, dialects)
  local points, seen = 0, 0
  while #s >= at + 9 and seen < 16 do
    local cmd, size = byte(s, at + 1), u64(s, at + 1)
    if size >= MOST_SEARCHED then return 0 end
    local gained = request_points(s, at + 9, cmd, size, dialects)
    if not gained then return 0 end
    points = points + gained
    if points >= 3 then return points end
    at = at + 9 + size
    seen = seen + 1
  end
  return points
end

local WITH_HELLO, WITHOUT_HELLO = {}, {}
for _, d in ipairs(DIALECTS) do
  local group = d.version and WITH_HELLO or WITHOUT_HELLO
  group[#group + 1] = d
end

local function not_after(a, b)
  for i = 1, 3 do
    if a[i] ~= b[i] then return a[i] < b[i] end
  end
  return true
end

-- What a server may speak whose HELLO says `version`, likeliest first.
local function announced(version)
  local found = {}
  for _, d in ipairs(WITH_HELLO) do
    if d.fork == "" and (not found[1] or not_after(d.version, version)) then found[1] = d end
  end
  for _, d in ipairs(WITH_HELLO) do
    local v = d.version
    if d.fork ~= "" and v[1] == version[1] and v[2] == version[2] and v[3] == version[3] then
      found[#found + 1] = d
    end
  end
  return found
end

-- Payload sizes with which some version answers a command; -1 for any.
local ANSWERS = {}
local FIRST_ANSWERS = {}   -- to commands without a tensor
for _, d in ipairs(DIALECTS) do
  for _, shape in pairs(d.commands) do
    if shape.answered then
      ANSWERS[shape.name] = ANSWERS[shape.name] or {}
      ANSWERS[shape.name][shape.answer] = true
      if shape.fixed >= 0 and shape.tensor_at < 0 then FIRST_ANSWERS[shape.answer] = true end
    end
  end
end
