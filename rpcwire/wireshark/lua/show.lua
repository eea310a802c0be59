-- ---------------------------------------------------------------------------------------------
-- What a packet shows
-- ---------------------------------------------------------------------------------------------

local function generated(tree, field, value)
  tree:add(field, value):set_generated()
end

local function clip(source, at, n)
  local most = source:len() - at
  if most <= 0 then return nil end
  return source:range(at, math.min(n, most))
end

local WANTED = {}
for _, field in pairs(T) do WANTED[#WANTED + 1] = field end

-- Whether anybody will see, or filters by, the fields of records.
local function records_wanted(tree)
  if tree.visible then return true end
  if not tree.referenced then return true end
  for _, field in ipairs(WANTED) do
    if tree:referenced(field) then return true end
  end
  return false
end

local function shape_text(s, at, layout)
  local parts = {}
  for i = 0, layout.dims - 1 do parts[#parts + 1] = u32(s, at + layout.at.ne + 4 * i) end
  while #parts > 1 and parts[#parts] == 1 do parts[#parts] = nil end
  return "[" .. table.concat(parts, ", ") .. "]"
end

-- A tensor record; `s` is what `source` holds from its byte `base` on.
local function show_record(tree, label, source, base, s, at, layout, st)
  local range = clip(source, base + at, layout.size)
  if not range then return end
  local item = tree:add(T.record, range)
  if #s < at + layout.size then
    item:set_text(label .. ": cut")
    item:add_proto_expert_info(X.cut)
    return
  end
  local name = text_of(s, at + layout.at.name)
  local kind, op = u32(s, at + 8), u32(s, at + layout.at.op)
  local op_text = op > 0 and op_name(st, op) or nil
  local shape = shape_text(s, at, layout)
  item:set_text(string.format("%s: %s %s %s%s", label, name ~= "" and name or "(no name)",
    TYPE_NAMES[kind] or "type " .. kind, shape, op > 0 and ", " .. (op_text or "op " .. op) or ""))
  for _, row in ipairs(layout.fields) do
    local key, width, count, offset = row[1], row[2], row[3], row[4]
    local field = T[key]
    if width == 0 then
      item:add(field, source:range(base + at + offset, count))
    else
      for i = 0, count - 1 do
        local sub = item:add_le(field, source:range(base + at + offset + i * width, width))
        if key == "flags" then
          local bits = source:range(base + at + offset, 4)
          for _, bit in ipairs(FLAG_BITS) do sub:add_le(T["flag_" .. bit[1]], bits) end
        end
      end
    end
  end
  if op_text then generated(item, T.op_name, op_text) end
  generated(item, T.shape, shape)
end

local function show_records(tree, label, source, base, s, at, count, layout, st)
  if not records_wanted(tree) then return end
  local most = math.min(count, ggml_rpc.prefs.graph_tensors)
  for i = 0, most - 1 do
    if at + (i + 1) * layout.size > #s then break end
    show_record(tree, label .. " " .. i, source, base, s, at + i * layout.size, layout, st)
  end
end

-- The payload's fields in the order of the table.
local function show_fields(tree, msg, source, base, s, fields, at)
  local layout, counts = msg.shape.layout, {}
  local finish_at = math.min(#s, msg.total)
  for _, row in ipairs(fields) do
    local name, width, count = row[1], row[2], row[3]
    local unit = width == 0 and layout.size or width
    local rest
    if type(count) == "string" then
      rest = count == "*" or count == "request.size"
      if rest then
        count = math.max(0, msg.total - at)
      else
        count = counts[count] or 0
      end
    end
    local n = count * unit
    if width == 0 then
      if count == 1 then
        show_record(tree, name, source, base, s, at, layout, msg.st)
      else
        show_records(tree, name:gsub("s$", ""), source, base, s, at, count, layout, msg.st)
      end
    elseif rest then
      generated(tree, F.data_length, UInt64(count % TWO32, math.floor(count / TWO32)))
      local range = count > 0 and clip(source, base + at, count)
      if range then tree:add(P[name], range) end
    elseif count == 1 then
      if at + unit > finish_at then
        tree:add_proto_expert_info(X.cut)
        return
      end
      tree:add_le(P[name], source:range(base + at, unit))
      if width == 4 then counts[name] = u32(s, at) end
    elseif width == 1 then
      local range = clip(source, base + at, math.min(n, finish_at - at))
      if range and finish_at > at then tree:add(P[name], range) end
    elseif records_wanted(tree) then
      for i = 0, math.min(count, ggml_rpc.prefs.graph_tensors) - 1 do
        if at + (i + 1) * unit > finish_at then break end
        tree:add_le(P[name], source:range(base + at + i * unit, unit))
      end
    end
    at = at + n
  end
end

local function bytes_text(n)
  return string.format("%.0f bytes", n)
end

-- One line on a message.
local function summary(msg)
  local text = msg.name or (msg.up and "a request" or "UNKNOWN")
  if not msg.up then text = text .. " response" end
  if msg.nodes then
    text = string.format("%s %d nodes, %d tensors", text, msg.nodes, msg.tensors)
  elseif msg.tensor_name and msg.tensor_name ~= "" then
    text = text .. " " .. msg.tensor_name
  end
  return text .. ", " .. bytes_text(msg.total)
end

local function show_links(item, msg, visited)
  if msg.up then
    if msg.response then
      generated(item, F.response_in, msg.response.first)
    elseif visited and msg.sure then
      item:add_proto_expert_info(X.unanswered)
    end
    if msg.graph_in then generated(item, F.graph_in, msg.graph_in) end
    if msg.repeats then
      generated(item, F.same_graph_in, msg.same_as)
      item:add_proto_expert_info(X[msg.repeats])
    end
  elseif msg.request then
    local request = msg.request
    generated(item, F.request_in, request.first)
    if request.t1 then
      local ns = math.max(0, msg.t0 - request.t1)
      generated(item, F.time, NSTime.new(math.floor(ns / 1000000000), ns % 1000000000))
    end
  elseif not msg.sync then
    item:add_proto_expert_info(X.unasked)
  end
end

local function show_message(tvb, tree, piece, visited)
  local msg = piece.msg
  local st = msg.st
  local source, base, s, n = tvb, piece.at, nil, nil
  local header = msg.up and 9 or 8
  if base then
    n = math.min(msg.total, tvb:len() - base)
    -- Data is never looked into: what precedes it is enough.
    local look = msg.nodes and n or math.min(n, msg.up and WHOLE + 9 or 72)
    s = tvb:raw(base, look)
  else
    s, base = msg.bytes, 0
    n = #s
    source = ByteArray.new(s, true):tvb("ggml RPC message")
  end
  local item = tree:add(ggml_rpc, source:range(base, n))
  item:set_text("ggml RPC, " .. summary(msg))
  generated(item, F.direction, msg.up and "up" or "down")
  if msg.sync then
    generated(item, F.cmd, msg.name)
  else
    if msg.up then item:add(F.cmd_id, source:range(base, 1)) end
    generated(item, F.cmd, msg.name or "UNKNOWN")
    item:add_le(F.payload_size, source:range(base + header - 8, 8))
  end
  generated(item, F.length, UInt64(msg.total % TWO32, math.floor(msg.total / TWO32)))
  generated(item, F.protocol, st.version and table.concat(st.version, ".") or st.best.protocol)
  generated(item, F.protocol_source, st.version and "hello" or "inferred")
  if msg.role then generated(item, F.role, msg.role) end
  if not msg.up and msg.tensor_name then generated(item, F.of_tensor, msg.tensor_name) end
  generated(item, F.first_frame, msg.first)
  if msg.last then generated(item, F.last_frame, msg.last) end
  show_links(item, msg, visited)
  if msg.missing and msg.missing > 0 then
    generated(item, F.missing, UInt64(msg.missing % TWO32, math.floor(msg.missing / TWO32)))
    item:add_proto_expert_info(X.missing)
  end
  if msg.odd then item:add_proto_expert_info(X.odd_size) end
  local fields = msg.shape and (msg.up and msg.shape.request or msg.shape.response)
  if fields and not msg.sync then show_fields(item, msg, source, base, s, fields, header) end
end

-- Show what a packet holds; returns a line for the Info column.
local function show(tvb, tree, pieces, visited)
  local lines, seen = {}, {}
  for _, piece in ipairs(pieces) do
    local msg = piece.msg
    if piece.kind == "message" then
      show_message(tvb, tree, piece, visited)
      lines[#lines + 1] = summary(msg)
    elseif msg or piece.n > 0 then
      local range = piece.n > 0 and clip(tvb, piece.at, piece.n)
      local field = piece.kind == "part" and F.part or F.undecoded
      local item = range and tree:add(ggml_rpc, range)
      if msg and msg.total then
        if item then
          item:set_text("ggml RPC, part of " .. summary(msg))
          generated(item, F.message_in, msg.first)
        end
        if not seen[msg] then lines[#lines + 1] = "[part of " .. summary(msg) .. "]" end
        seen[msg] = true
      elseif msg then
        if item then item:set_text("ggml RPC, part of a message") end
        lines[#lines + 1] = "[part of a message]"
      else
        if item then
          item:set_text("ggml RPC, not decoded")
          item:add_proto_expert_info(X.out_of_step)
        end
        lines[#lines + 1] = "[not decoded]"
      end
      if item then item:add(field, range) end
    end
  end
  return table.concat(lines, " | ")
end
