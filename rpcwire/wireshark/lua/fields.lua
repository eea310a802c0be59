-- ---------------------------------------------------------------------------------------------
-- Protocol, fields, preferences, expert items
-- ---------------------------------------------------------------------------------------------

local ggml_rpc = Proto("ggml_rpc", "ggml RPC (llama.cpp)")

local F = {}        -- fields of a message
local P = {}        -- fields of payloads, by name
local T = {}        -- fields of tensor records, by name
local X = {}        -- expert items
local all_fields = {}

local function declare(into, key, field)
  into[key] = field
  all_fields[#all_fields + 1] = field
end

local INTEGERS = {[1] = ProtoField.uint8, [4] = ProtoField.uint32, [8] = ProtoField.uint64}

local function make_field(abbr, title, width, hex, signed, doc)
  if doc == "" then doc = nil end
  if width == 0 then return ProtoField.bytes(abbr, title, base.NONE, doc) end
  if signed then return ProtoField.int32(abbr, title, base.DEC, nil, nil, doc) end
  return INTEGERS[width](abbr, title, hex and base.HEX or base.DEC, nil, nil, doc)
end

local function f(name) return "ggml_rpc." .. name end

declare(F, "cmd", ProtoField.string(f"cmd", "Command"))
declare(F, "cmd_id", ProtoField.uint8(f"cmd_id", "Command number", base.DEC))
declare(F, "direction", ProtoField.string(f"direction", "Direction",
  "up: client to worker, down: worker to client"))
declare(F, "length", ProtoField.uint64(f"length", "Length", base.DEC, nil, nil,
  "Bytes of the whole message, header included"))
declare(F, "payload_size", ProtoField.uint64(f"payload_size", "Payload size", base.DEC))
declare(F, "data_length", ProtoField.uint64(f"data_length", "Data length", base.DEC, nil, nil,
  "Bytes of tensor data that the message carries"))
declare(F, "protocol", ProtoField.string(f"protocol", "Protocol version"))
declare(F, "protocol_source", ProtoField.string(f"protocol_source", "Version known from"))
declare(F, "role", ProtoField.string(f"role", "Role", "As rpcwire names what traffic is for"))
declare(F, "first_frame", ProtoField.framenum(f"first_frame", "First byte in"))
declare(F, "last_frame", ProtoField.framenum(f"last_frame", "Last byte in"))
declare(F, "message_in", ProtoField.framenum(f"message_in", "Message in"))
declare(F, "response_in", ProtoField.framenum(f"response_in", "Response in", base.NONE,
  frametype.RESPONSE))
declare(F, "request_in", ProtoField.framenum(f"request_in", "Request in", base.NONE,
  frametype.REQUEST))
declare(F, "time", ProtoField.relative_time(f"time", "Response time",
  "From the request's last byte to the response's first"))
declare(F, "graph_in", ProtoField.framenum(f"graph_in", "Graph in"))
declare(F, "same_graph_in", ProtoField.framenum(f"same_graph_in", "Same graph in"))
declare(F, "of_tensor", ProtoField.string(f"of_tensor", "Tensor",
  "Name of the tensor that was asked for"))
declare(F, "part", ProtoField.bytes(f"part", "Part of a message"))
declare(F, "undecoded", ProtoField.bytes(f"undecoded", "Not decoded"))
declare(F, "missing", ProtoField.uint64(f"missing", "Bytes not captured", base.DEC))

for _, row in ipairs(PAYLOAD_FIELDS) do
  declare(P, row[1], make_field(f(row[1]), row[1], row[2], row[3], false, row[4]))
end

local TYPE_NAMES, TYPE_BLOCK, TYPE_SIZE = {}, {}, {}
for id, row in pairs(TYPES) do
  TYPE_NAMES[id], TYPE_BLOCK[id], TYPE_SIZE[id] = row[1], row[2], row[3]
end

declare(T, "record", ProtoField.none(f"tensor", "Tensor"))
for _, row in ipairs(TENSOR_FIELDS) do
  local name = row[1]
  local abbr = f("tensor." .. name)
  if name == "type" then
    declare(T, name, ProtoField.uint32(abbr, name, base.DEC, TYPE_NAMES))
  elseif name == "name" then
    declare(T, name, ProtoField.stringz(abbr, name))
  else
    declare(T, name, make_field(abbr, name, row[2], row[3], row[4]))
  end
end
declare(T, "op_name", ProtoField.string(f"tensor.op_name", "op name"))
declare(T, "shape", ProtoField.string(f"tensor.shape", "shape"))
local FLAG_BITS = {{"input", 1}, {"output", 2}, {"param", 4}, {"loss", 8}, {"compute", 16}}
for _, bit in ipairs(FLAG_BITS) do
  declare(T, "flag_" .. bit[1],
    ProtoField.bool(f("tensor.flags." .. bit[1]), bit[1], 32, nil, bit[2]))
end

ggml_rpc.fields = all_fields

local function add_expert(key, text, group, severity)
  X[key] = ProtoExpert.new(f("expert." .. key), text, group, severity)
end
add_expert("graph_resent", "The device's last graph is sent again in full, unchanged",
  expert.group.SEQUENCE, expert.severity.WARN)
add_expert("graph_repeated", "An unchanged graph is sent in full (this version cannot reuse it)",
  expert.group.SEQUENCE, expert.severity.NOTE)
add_expert("graph_alternates", "A graph that this device had before, but not last, is sent in full",
  expert.group.SEQUENCE, expert.severity.NOTE)
add_expert("unanswered", "No response to this request was captured",
  expert.group.RESPONSE_CODE, expert.severity.WARN)
add_expert("unasked", "The request to this response was not captured",
  expert.group.SEQUENCE, expert.severity.NOTE)
add_expert("odd_size", "A payload of this size is not in the table of this version (a fork?)",
  expert.group.PROTOCOL, expert.severity.NOTE)
add_expert("out_of_step", "Bytes that could not be decoded: a header was lost, or none is here",
  expert.group.REASSEMBLE, expert.severity.NOTE)
add_expert("cut", "The message's fields were not captured whole",
  expert.group.REASSEMBLE, expert.severity.NOTE)
add_expert("missing", "Part of the message's data was not captured",
  expert.group.REASSEMBLE, expert.severity.CHAT)

local experts = {}
for _, item in pairs(X) do experts[#experts + 1] = item end
ggml_rpc.experts = experts

ggml_rpc.prefs.graph_tensors = Pref.uint("Tensors shown of each graph", 4096,
  "Records of a GRAPH_COMPUTE shown in full; 0 shows the summary alone")
ggml_rpc.prefs.kept_mib = Pref.uint("MiB kept of messages that span packets", 512,
  "Beyond it such messages are shown without their fields")
