-- ---------------------------------------------------------------------------------------------
-- State of the capture: filled while packets are seen for the first time, only read after that
-- ---------------------------------------------------------------------------------------------

local streams = {}        -- number of the TCP stream -> its state
local packets = {}        -- packet number -> what is to be shown of its segment(s)
local workers = {}        -- address and port of a worker -> versions that it may speak
local kept_bytes = 0      -- of messages that span packets

local UP, DOWN = 1, 2

local function new_half()
  return {
    next = nil,           -- sequence number that is expected, unwrapped
    held = {},            -- segments after a hole, in order
    held_bytes = 0,
    skip = 0,             -- bytes of the open message that are still to be passed over
    need = 0,             -- bytes that must be at hand to go on
    parts = {},           -- those that came in earlier packets,
    have = 0,             -- and how many they are
    msg = nil,            -- the open message
    lost = false,         -- out of step: a header has to be found,
    tail = {},            -- in these segments, or later ones
    first = true,         -- nothing was cut yet
  }
end

local function new_stream(id)
  local st = {
    id = id,
    state = "new",        -- "new", "rpc" or "other"
    halves = {[0] = new_half(), [1] = new_half()},
    client = nil,         -- side 0 or 1
    early = {},           -- segments from before it was known
    early_bytes = 0,
    tries = 0,
    candidates = WITH_HELLO,
    best = WITH_HELLO[#WITH_HELLO],
    version = nil,
    answered = {},        -- command name -> what the stream shows, against the table
    open = {}, open_from = 1, open_to = 0,
    waiting = {},         -- responses whose request is still to come
    recent = {},          -- requests that need no response
    loose = false,        -- pairing has to look at sizes
    graphs = {},          -- device -> its last graphs, newest first
    ops = nil,            -- op tables that agree with the graphs,
    hints = {},           -- and what names say of op numbers
    caps = {false, false},
  }
  streams[id] = st
  return st
end

local function set_candidates(st, list)
  st.candidates = list
  st.only = #list == 1 and list[1] or nil
  st.best = st.version and list[1] or list[#list]
  st.ops = nil
  if st.worker then workers[st.worker] = list end
end

-- ---------------------------------------------------------------------------------------------
-- What a request is
-- ---------------------------------------------------------------------------------------------

-- The shape of a request, narrowing the versions by it; nil for what no version knows.
local function shape_of(st, cmd, size, s, from)
  local only = st.only and st.only.commands[cmd]
  if only and only.fixed == size then return only, true end
  local fit, readables = {}, {}
  for _, d in ipairs(st.candidates) do
    local shape = d.commands[cmd]
    if shape and fits(shape, s, from, size) then fit[#fit + 1] = d end
  end
  if #fit > 1 then
    for _, d in ipairs(fit) do
      if readable(d.commands[cmd], s, from, size) then readables[#readables + 1] = d end
    end
    if #readables > 0 then fit = readables end
  end
  if #fit > 0 then
    if #fit < #st.candidates then set_candidates(st, fit) end
    return st.best.commands[cmd], true
  end
  local known = st.best.commands[cmd]
  for _, d in ipairs(DIALECTS) do
    local shape = d.commands[cmd]
    if shape and (not known or fits(shape, s, from, size)) then known = shape end
  end
  return known, false
end

-- Op tables from number `low` to `high` that agree with what names have told.
local function agreeing(hints, low, high)
  local found = {}
  for i = low, high do
    local good = true
    for op, name in pairs(hints) do
      if OPS[i][op + 1] ~= name then good = false end
    end
    if good then found[#found + 1] = OPS[i] end
  end
  return found
end

-- Learn from the names of a graph's tensors how its build numbers ops; the version bounds it.
local function learn_ops(st, s, first, tensors, layout)
  local fresh = not st.ops
  for i = 0, math.min(tensors, 1024) - 1 do
    local at = first + i * layout.size
    local op = u32(s, at + layout.at.op)
    if op > 0 and not st.hints[op] then
      local suffix = text_of(s, at + layout.at.name):match(" %(([a-z]+)%)$")
      st.hints[op] = SUFFIXES[suffix or ""]
      fresh = fresh or st.hints[op] ~= nil
    end
  end
  if not fresh then return end
  local low, high = #OPS, 1
  for _, d in ipairs(st.candidates) do
    low, high = math.min(low, d.ops[1]), math.max(high, d.ops[2])
  end
  st.ops = agreeing(st.hints, low, high)
  if #st.ops == 0 then st.ops = agreeing(st.hints, 1, #OPS) end
end

-- The name of an op number, where all tables that come into question agree on it.
local function op_name(st, op)
  local name
  for _, names in ipairs(st.ops or {}) do
    if name and names[op + 1] ~= name then return nil end
    name = names[op + 1]
  end
  return name
end

local GRAPHS_KEPT = 4

-- Take in a graph; notes on the message what became of it.
local function take_graph(st, msg, payload_at)
  local s = msg.bytes
  local shape = msg.shape
  local nodes, tensors, first = graph_counts(s, payload_at, msg.size, shape)
  msg.nodes, msg.tensors, msg.records_at = nodes, tensors, first
  if not nodes or #s < payload_at + msg.size then return end
  if not st.ops or #st.ops > 1 then learn_ops(st, s, first, tensors, shape.layout) end
  local device = shape.device_at == 0 and u32(s, payload_at) or 0
  local last = st.graphs[device]
  if not last then
    last = {}
    st.graphs[device] = last
  end
  for i, old in ipairs(last) do
    if old.bytes == s then
      msg.bytes = old.bytes
      msg.same_as = old.first
      msg.repeats = i == 1 and (st.best.reuses and "graph_resent" or "graph_repeated")
        or "graph_alternates"
      break
    end
  end
  table.insert(last, 1, {bytes = msg.bytes, first = msg.first})
  last[GRAPHS_KEPT + 1] = nil
end
