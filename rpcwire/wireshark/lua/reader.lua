-- ---------------------------------------------------------------------------------------------
-- Cutting a direction into messages. Bulk data is passed over by arithmetic, never collected.
-- A context `ctx` is one segment: frame, t (ns), tvb or s, c (bytes captured), n (bytes in the
-- stream), seq, own (what its packet shows) and show (where messages completed now are shown).
-- ---------------------------------------------------------------------------------------------

local HEAD = 380                  -- bytes kept of a message that carries data
local TAIL = 600                  -- bytes looked at again while out of step
local WHOLE = 65536               -- messages without data are kept whole up to this size
local MOST_HELD, MOST_HELD_BYTES = 1024, 4194304
local MOST_EARLY, MOST_EARLY_BYTES, MOST_TRIES = 64, 65536, 1000

local function bytes_of(ctx)
  if not ctx.s then ctx.s = ctx.c > 0 and ctx.tvb:raw(0, ctx.c) or "" end
  return ctx.s
end

local function add_piece(list, kind, msg, at, n)
  list[#list + 1] = {kind = kind, msg = msg, at = at, n = n}
end

local function finish(h, ctx)
  h.msg.last, h.msg.t1 = ctx.frame, ctx.t
  h.msg = nil
end

-- Payload bytes that are needed to show a message's fields.
local function head_length(up, cmd, size)
  if not up then return size <= 64 and size or 0 end
  for _, d in ipairs(DIALECTS) do
    local shape = d.commands[cmd]
    if shape and shape.graph and size <= MOST_GRAPH then return size end
    if shape and shape.fixed >= 0 and size <= WHOLE then return size end
  end
  return math.min(size, HEAD)
end

-- A request's fields are at hand.
local function understand_request(st, msg)
  local s = msg.bytes
  local shape, known = shape_of(st, msg.cmd, msg.size, s, 9)
  msg.shape, msg.odd = shape, not known
  if not shape then
    msg.name = "UNKNOWN_" .. msg.cmd
    return
  end
  msg.name, msg.role = shape.name, ROLES[shape.name]
  local at = 9 + shape.tensor_at
  if not shape.graph and shape.tensor_at >= 0 and #s >= at + shape.layout.size then
    msg.tensor_name = text_of(s, at + shape.layout.at.name)
  end
  if shape.graph then
    take_graph(st, msg, 9)
  elseif msg.name == "GRAPH_RECOMPUTE" and #s >= 13 then
    local last = st.graphs[u32(s, 9)]
    msg.graph_in = last and last[1].first
  elseif msg.cmd == HELLO_ID then
    for i = 10, #s do
      if byte(s, i) ~= 0 then st.caps[UP] = true end
    end
  end
  add_request(st, msg, 9)
end

-- All bytes that show a message's fields were seen; `start` is where it begins in this segment,
-- or nil when it began in an earlier one.
local function complete(st, h, up, ctx, bytes, start, taken)
  local msg = h.msg
  msg.bytes = bytes
  if up then understand_request(st, msg) else add_response(st, msg) end
  if start and ctx.own == ctx.show then
    add_piece(ctx.own, "message", msg, start, math.min(msg.total, ctx.n - start))
    if #bytes > 64 then msg.bytes = nil end
  else
    kept_bytes = kept_bytes + #bytes
    if kept_bytes > ggml_rpc.prefs.kept_mib * 1048576 then
      msg.bytes = bytes:sub(1, 64)
    end
    add_piece(ctx.show, "message", msg, nil, 0)
  end
  h.parts, h.have = {}, 0
  h.skip = msg.total - taken
  if h.first then
    h.first = false
    h.sync = (up and st.caps[UP]) or (not up and st.caps[DOWN])
  end
  if h.skip == 0 then finish(h, ctx) end
end

local function out_of_step(h, ctx, from)
  h.parts, h.have, h.msg, h.lost, h.sync = {}, 0, nil, true, false
  return from
end

-- Offset in `s` where the stream makes sense again; nil if nowhere. `starts` holds offsets at
-- which packets begin.
local function find_message(st, up, s, starts)
  if not up then
    local at = starts[#starts]
    if #s < at + 8 then return nil end
    local size = u64(s, at)
    for i = st.open_to, st.open_from, -1 do
      if takes(st.open[i], size) then return at end
    end
    return nil
  end
  for _, at in ipairs(starts) do
    if judge(s, at, st.candidates) >= 2 then return at end
  end
  local from = 1
  for _ = 1, 2000 do
    local at = s:find("[%z\1-\63].....%z%z%z", from)
    if not at then return nil end
    if byte(s, at) == 0 and byte(s, at + 1) == 0 then
      from = s:find("[^%z]", at)               -- no header begins with two zeros
      if not from then return nil end
      from = math.max(at + 1, from - 1)
    else
      if judge(s, at - 1, st.candidates) >= 3 then return at - 1 end
      from = at + 1
    end
  end
  return nil
end

-- The byte that Apple builds exchange after HELLO, outside all framing: is s[pos] it?
local function is_sync(up, s, pos)
  local first = byte(s, pos + 1)
  if first == RDMA_READY then return true end
  if first ~= 0 then return false end
  local function plain(at)
    if #s < at + (up and 9 or 8) then return false end
    if not up then return FIRST_ANSWERS[u64(s, at)] or false end
    return request_points(s, at + 9, byte(s, at + 1), u64(s, at + 1), WITH_HELLO) ~= nil
  end
  return #s == pos + 1 or (not plain(pos) and plain(pos + 1))
end

local consume

-- Out of step: look for a message in the segment and the small ones before it, and read those from
-- there on. Returns where to go on in this segment.
local function search(st, side, ctx, pos)
  local h, up = st.halves[side], side == st.client
  local entries, parts, starts, total = h.tail, {}, {}, 0
  entries[#entries + 1] = {ctx = ctx, from = pos}
  for i, entry in ipairs(entries) do
    parts[i] = bytes_of(entry.ctx):sub(entry.from + 1)
    starts[i] = total
    total = total + #parts[i]
  end
  st.loose = true
  local found = total > 0 and find_message(st, up, table.concat(parts), starts)
  if not found then
    add_piece(ctx.own, "undecoded", nil, pos, ctx.n - pos)
    entries[#entries].piece = ctx.own[#ctx.own]
    if ctx.c < ctx.n then h.tail, total = {}, 0 end
    while total > TAIL do                      -- a header may yet turn out to be in the rest
      local first = h.tail[1]
      local have = first.ctx.c - first.from
      if total - have < TAIL then
        first.from = first.from + total - TAIL
        total = TAIL
      else
        table.remove(h.tail, 1)
        total = total - have
      end
    end
    return ctx.n
  end
  h.lost, h.tail = false, {}
  for i, entry in ipairs(entries) do
    if found < starts[i] + #parts[i] then
      local from = entry.from + math.max(0, found - starts[i])
      if entry.ctx == ctx then
        if from > pos then add_piece(ctx.own, "undecoded", nil, pos, from - pos) end
        return from
      end
      entry.piece.n = from - entry.piece.at
      entry.ctx.show = ctx.own
      consume(st, side, entry.ctx, from)
    end
  end
  return pos
end

-- Read the segment from `pos` to its end.
function consume(st, side, ctx, pos)
  local h = st.halves[side]
  local up = side == st.client
  local header = up and 9 or 8
  local c, n = ctx.c, ctx.n
  local start = pos               -- where the bytes being collected begin in this segment
  local begin = pos               -- and where their message does
  while pos < n do
    if h.skip > 0 then
      local k = math.min(h.skip, n - pos)
      local captured = math.max(0, math.min(k, c - pos))
      local msg = h.msg
      if captured < k then msg.missing = (msg.missing or 0) + k - captured end
      if not (ctx.own == ctx.show and msg.first == ctx.frame) then
        add_piece(ctx.own, "part", msg, pos, captured)
      end
      h.skip, pos = h.skip - k, pos + k
      if h.skip == 0 then finish(h, ctx) end
    elseif h.lost then
      pos = search(st, side, ctx, pos)
    else
      local s = bytes_of(ctx)
      if h.have == 0 then
        start, begin, h.need = pos, pos, header
        h.msg = {st = st, up = up, first = ctx.frame, t0 = ctx.t}
        if h.sync and pos < c then
          h.sync = false
          if is_sync(up, s, pos) then h.need, h.msg.sync = 1, true end
        end
      end
      local msg = h.msg
      local want, avail = h.need - h.have, math.max(0, c - pos)
      if avail < want and n > c then           -- the snap length cut off what is needed
        if msg.size then
          h.parts[#h.parts + 1] = s:sub(start + 1, c)
          local here = #h.parts == 1 and start or nil
          local taken = h.have + avail
          msg.cut = true
          pos = math.max(pos, c)
          complete(st, h, up, ctx, table.concat(h.parts), here, taken)
        else
          pos = out_of_step(h, ctx, n)
          add_piece(ctx.own, "undecoded", nil, start, n - start)
        end
      elseif avail < want then                 -- the rest comes in a later packet
        h.have = h.have + avail
        pos = n
      else
        pos, h.have = pos + want, h.need
        local whole = #h.parts == 0
        local bytes, from = s, start
        if not whole then
          bytes = table.concat(h.parts) .. s:sub(start + 1, pos)
          h.parts, from = {bytes}, 0
          start = pos
        end
        if msg.sync then
          msg.name, msg.size, msg.total = "RDMA_SYNC", 0, 1
          msg.bytes = s:sub(pos, pos)
          add_piece(ctx.show, "message", msg, ctx.own == ctx.show and pos - 1 or nil, 1)
          h.have, h.parts = 0, {}
          finish(h, ctx)
        elseif not msg.size then
          local cmd = up and byte(bytes, from + 1) or nil
          local size = u64(bytes, from + header - 8)
          local good = size <= MOST_BYTES
          if up then good = MOST[cmd] and LEAST[cmd] <= size and size <= MOST[cmd] end
          if good then
            msg.cmd, msg.size, msg.total = cmd, size, header + size
            h.need = header + head_length(up, cmd, size)
            if h.need == h.have then
              complete(st, h, up, ctx, bytes:sub(from + 1, from + h.need), whole and from or nil,
                h.need)
            end
          else
            pos = out_of_step(h, ctx, whole and start or math.min(pos, n))
          end
        else
          complete(st, h, up, ctx, bytes:sub(from + 1, from + h.need), whole and from or nil,
            h.need)
        end
      end
    end
  end
  if h.have > 0 then                           -- goes on in a later packet
    h.parts[#h.parts + 1] = bytes_of(ctx):sub(start + 1, c)
    add_piece(ctx.own, "part", h.msg, begin, c - begin)
  end
end

-- ---------------------------------------------------------------------------------------------
-- Segments in the order of the stream
-- ---------------------------------------------------------------------------------------------

-- Sequence numbers without wrap-around, near the one that is expected.
local function unwrap(seq, near)
  local delta = (seq - near) % TWO32
  if delta >= 2147483648 then delta = delta - TWO32 end
  return near + delta
end

local feed

local function release(st, side, show)
  local h = st.halves[side]
  while h.held[1] and h.held[1].off <= h.next do
    local ctx = table.remove(h.held, 1)
    h.held_bytes = h.held_bytes - ctx.c
    ctx.show = show
    feed(st, side, ctx)
  end
end

-- Bytes before `off` will not come any more.
local function give_up(st, side, off)
  local h = st.halves[side]
  h.next = off
  st.loose = true
  h.parts, h.have, h.msg, h.skip, h.lost = {}, 0, nil, 0, true
end

function feed(st, side, ctx)
  local h = st.halves[side]
  if not h.next then h.next = ctx.seq end
  ctx.off = unwrap(ctx.seq, h.next)
  local gap = ctx.off - h.next
  if gap + ctx.n <= 0 then return end          -- all of it was here before
  if gap > 0 then
    if h.skip > gap then                       -- within data that is passed over anyway
      h.msg.missing = (h.msg.missing or 0) + gap
      h.skip = h.skip - gap
      h.next = ctx.off
      gap = 0
    else
      bytes_of(ctx)
      ctx.tvb = nil
      local at = #h.held + 1
      while at > 1 and h.held[at - 1].off > ctx.off do at = at - 1 end
      table.insert(h.held, at, ctx)
      h.held_bytes = h.held_bytes + ctx.c
      if #h.held > MOST_HELD or h.held_bytes > MOST_HELD_BYTES then
        give_up(st, side, h.held[1].off)
        release(st, side, ctx.own)
      end
      return
    end
  end
  h.next = h.next + gap + ctx.n
  consume(st, side, ctx, -gap)
end

-- ---------------------------------------------------------------------------------------------
-- Is it ggml RPC, and which side is the client?
-- ---------------------------------------------------------------------------------------------

-- Points for requests at the beginning of what is known of a side; nil while it is too short.
local function beginning(st, side)
  local parts, next_seq = {}, nil
  for _, ctx in ipairs(st.early) do
    if ctx.side == side and (not next_seq or ctx.seq == next_seq) then
      parts[#parts + 1] = ctx.s
      next_seq = (ctx.seq + ctx.n) % TWO32
      if ctx.c < ctx.n then break end
    end
  end
  local s = table.concat(parts)
  if #s < 9 then return nil, s end
  if byte(s, 1) == HELLO_ID and request_points(s, 9, HELLO_ID, u64(s, 1), WITH_HELLO) then
    return 3, s
  end
  return judge(s, 0, DIALECTS), s
end

local function accept(st, side, syn_seen, show)
  st.state, st.client = "rpc", side
  st.worker = st.names[1 - side]
  local _, s = beginning(st, side)
  local hello = s ~= "" and byte(s, 1) == HELLO_ID
  local known = workers[st.worker]
  if not hello and not syn_seen then
    st.loose = true
    set_candidates(st, known or DIALECTS)
    st.halves[1 - side].lost = st.early[1].side ~= side
  else
    set_candidates(st, hello and WITH_HELLO or WITHOUT_HELLO)
  end
  local early = st.early
  st.early = {}
  for _, ctx in ipairs(early) do
    ctx.show = show
    feed(st, ctx.side, ctx)
    release(st, ctx.side, show)
  end
end

-- Take a segment of a stream that is not yet known; true once it is known to be ggml RPC.
local function try(st, ctx, forced, syn_seen)
  st.tries = st.tries + 1
  bytes_of(ctx)
  ctx.tvb = nil
  local early = st.early
  if st.tries <= MOST_EARLY and st.early_bytes < MOST_EARLY_BYTES then
    early[#early + 1] = ctx
    st.early_bytes = st.early_bytes + ctx.c
    local first = early[1].side
    for _, side in ipairs({first, 1 - first}) do
      local points, s = beginning(st, side)
      if points and points >= 1 then
        local _, other = beginning(st, 1 - side)
        local good = points >= 2 or forced
        if not good and #other >= 8 then
          for _, d in ipairs(DIALECTS) do
            local shape = d.commands[byte(s, 1)]
            good = good or (shape and shape.answered and shape.answer == u64(other, 0))
          end
        end
        if good then
          accept(st, side, syn_seen, ctx.own)
          return true
        end
      end
    end
  end
  if judge(ctx.s, 0, DIALECTS) >= 3 then        -- entered in its middle
    st.early = {ctx}
    accept(st, ctx.side, false, ctx.own)
    return true
  end
  if st.tries > MOST_TRIES then
    st.state, st.early = "other", {}
  end
  return false
end
