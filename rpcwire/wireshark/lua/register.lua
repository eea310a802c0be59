-- ---------------------------------------------------------------------------------------------
-- Calls from Wireshark
-- ---------------------------------------------------------------------------------------------

local get_stream = Field.new("tcp.stream")
local get_seq = Field.new("tcp.seq_raw")
local get_length = Field.new("tcp.len")
local get_payload = Field.new("tcp.payload")
local has_completeness, get_completeness = pcall(Field.new, "tcp.completeness")

local handled = {}        -- segments of the packet in hand that were taken
local handled_frame = nil
local newest = 0          -- the last packet that was taken; later ones are new

-- The last of a packet's values: the innermost layer's, where TCP is tunnelled.
local function latest(get)
  local found = {get()}
  return found[#found]
end

local function number_of(get)
  local info = latest(get)
  return info and info.value
end

local function side_of(st, pinfo)
  if not st.port then
    st.port = pinfo.src_port
    st.address = tostring(pinfo.src)
    st.twins = pinfo.src_port == pinfo.dst_port
    st.names = {
      [0] = tostring(pinfo.src) .. " " .. pinfo.src_port,
      [1] = tostring(pinfo.dst) .. " " .. pinfo.dst_port,
    }
  end
  if st.twins then return tostring(pinfo.src) == st.address and 0 or 1 end
  return pinfo.src_port == st.port and 0 or 1
end

-- What is kept of a segment, made at its first visit.
local function pieces_at(frame, seq)
  local pieces = packets[frame]
  while pieces and pieces.seq ~= seq do pieces = pieces.other end
  return pieces
end

local function take(st, tvb, n, pinfo, seq, forced)
  local own = {seq = seq, other = packets[pinfo.number]}
  packets[pinfo.number] = own
  local ctx = {
    frame = pinfo.number,
    t = math.floor(pinfo.rel_ts * 1000000000 + 0.5),
    tvb = tvb, c = math.min(tvb:len(), n), n = n,
    seq = seq, own = own, show = own, side = side_of(st, pinfo),
  }
  if st.state == "rpc" then
    feed(st, ctx.side, ctx)
    release(st, ctx.side, own)
    return true
  end
  local syn = has_completeness and number_of(get_completeness)
  if try(st, ctx, forced, not syn or syn % 2 == 1) then return true end
  return false
end

-- Dissect a segment; returns whether it is ggml RPC, and a line about it.
local function segment(tvb, n, pinfo, tree, forced)
  local id, seq = number_of(get_stream), number_of(get_seq)
  if not id or not seq or n == 0 then return false end
  -- After TCP put segments back into order the data may begin before this packet's.
  local length = number_of(get_length) or 0
  if n < length then seq = (seq + length - n) % TWO32 end
  local st = streams[id]
  if handled_frame ~= pinfo.number then handled_frame, handled = pinfo.number, {} end
  local fresh = false                          -- seen now for the first time
  if not handled[seq] then
    handled[seq] = true
    if pinfo.number >= newest then
      newest = pinfo.number
      st = st or new_stream(id)
      if st.state ~= "other" and not pieces_at(pinfo.number, seq) then
        fresh = true
        take(st, tvb, n, pinfo, seq, forced)
      end
    end
  end
  if not st or st.state ~= "rpc" then return false end
  local pieces = pieces_at(pinfo.number, seq)
  if not pieces then return false end
  return true, show(tvb, tree, pieces, not fresh)
end

local function set_columns(pinfo, line)
  pinfo.cols.protocol = "GGML-RPC"
  if line ~= "" then
    pinfo.cols.info:clear()
    pinfo.cols.info:append(line)
  end
end

function ggml_rpc.dissector(tvb, pinfo, tree)
  local good, line = segment(tvb, tvb:reported_len(), pinfo, tree, true)
  if good then
    set_columns(pinfo, line)
    return tvb:len()
  end
  -- What is refused other dissectors may take, for the whole connection: so not while it is not
  -- yet known what it is, or cannot be, as nothing of TCP can be read without a tree.
  local st = streams[number_of(get_stream) or -1]
  if not get_stream() or (st and st.state == "new" and st.tries <= MOST_EARLY) then
    return tvb:len()
  end
  return 0
end

local function heuristic(tvb, pinfo, tree)
  local good, line = segment(tvb, tvb:reported_len(), pinfo, tree, false)
  if not good then return false end
  pinfo.conversation = ggml_rpc
  set_columns(pinfo, line)
  return true
end

function ggml_rpc.init()
  streams, packets, workers, kept_bytes = {}, {}, {}, 0
  handled, handled_frame, newest = {}, nil, 0
end

-- TCP does not hand on segments that it takes for retransmitted or out of order; some of them
-- fill holes. They are read here, after all other dissectors.
local leftovers = Proto("ggml_rpc_late", "ggml RPC, segments out of order")

function leftovers.dissector(tvb, pinfo, tree)
  local id = number_of(get_stream)
  local st = id and streams[id]
  if not st or st.state == "other" or handled_frame == pinfo.number then return end
  local payload = latest(get_payload)
  if not payload or payload.len == 0 then return end  -- nothing was captured of it
  local good, line = segment(payload.range:tvb(), number_of(get_length), pinfo, tree, false)
  if good and line ~= "" then pinfo.cols.info:append(" | " .. line) end
end

register_postdissector(leftovers)
DissectorTable.get("tcp.port"):add(DEFAULT_PORT, ggml_rpc)
ggml_rpc:register_heuristic("tcp", heuristic)

-- Wireshark reads a file without field values unless a tap asks for them; tshark -2 does so only
-- with a filter (-Y or -R), and otherwise everything is taken in its second pass.
if gui_enabled() then
  local tap = Listener.new("tcp", "tcp")
  function tap.packet() end
end
