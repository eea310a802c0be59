-- ---------------------------------------------------------------------------------------------
-- Which response answers which request
-- ---------------------------------------------------------------------------------------------

local MOST_OPEN = 1024

local function takes(request, size)
  return request.sizes[size] or request.sizes[-1] or false
end

-- Payload sizes that the response to a request may have, and whether there must be one.
local function expected(st, msg, payload_at)
  local override = st.answered[msg.name]
  local sizes, silent = {}, false
  if override == false then return sizes, false end
  for _, d in ipairs(st.candidates) do
    local shape = d.commands[msg.cmd] or msg.shape
    if shape.answered then
      local size = shape.answer
      if size < 0 and #msg.bytes >= payload_at + shape.size_at + 8 then
        size = u64(msg.bytes, payload_at + shape.size_at)
      end
      sizes[size] = true
    else
      silent = true
    end
  end
  if override and not next(sizes) then
    return ANSWERS[msg.name] or sizes, true
  end
  return sizes, not silent
end

-- A request turned out to be answered with `size` bytes, or (nil) not to be.
local function learn(st, msg, size)
  local fit = {}
  for _, d in ipairs(st.candidates) do
    local shape = d.commands[msg.cmd]
    if shape and ((size and shape.answered and (shape.answer == size or shape.answer < 0))
      or (not size and not shape.answered)) then
      fit[#fit + 1] = d
    end
  end
  if #fit == 0 then
    st.answered[msg.name] = size ~= nil
  elseif #fit < #st.candidates then
    set_candidates(st, fit)
  end
end

local function couple(st, request, response)
  request.response, response.request = response, request
  response.name, response.cmd, response.shape = request.name, request.cmd, request.shape
  response.role, response.tensor_name = request.role, request.tensor_name
  if request.cmd == HELLO_ID and response.bytes and #response.bytes >= 11 then
    st.version = {byte(response.bytes, 9, 11)}
    st.source = "hello"
    set_candidates(st, announced(st.version))
    for i = 13, #response.bytes do
      if byte(response.bytes, i) ~= 0 then st.caps[DOWN] = true end
    end
  end
end

local function add_request(st, msg, payload_at)
  local sizes, sure = expected(st, msg, payload_at)
  msg.sizes, msg.sure = sizes, sure
  if not next(sizes) then
    table.insert(st.recent, 1, msg)
    st.recent[9] = nil
    return
  end
  while st.waiting[1] and st.waiting[1].adrift and st.waiting[1].first < msg.first do
    table.remove(st.waiting, 1)                -- its request was never found
  end
  local first = st.waiting[1]
  if first and sure and takes(msg, first.size) then
    table.remove(st.waiting, 1)
    couple(st, msg, first)
    return
  end
  st.open_to = st.open_to + 1
  st.open[st.open_to] = msg
  if st.open_to - st.open_from >= MOST_OPEN then
    st.open[st.open_from] = nil
    st.open_from = st.open_from + 1
    st.loose = true
  end
end

local function forget_open(st, upto)
  for i = st.open_from, upto do st.open[i] = nil end
  st.open_from = upto + 1
end

local function resolved(st, request, response)
  local several = next(request.sizes, (next(request.sizes)))
  if not request.sure or several then learn(st, request, response.size) end
  couple(st, request, response)
end

local function add_response(st, msg)
  local first = st.open[st.open_from]
  if first and not st.loose and first.sure and takes(first, msg.size) then
    forget_open(st, st.open_from)
    return resolved(st, first, msg)
  end
  for at = st.open_to, st.open_from, -1 do
    local request = st.open[at]
    if request.last and request.last <= msg.first and takes(request, msg.size) then
      for i = st.open_from, at - 1 do
        if not st.open[i].sure and not st.loose then learn(st, st.open[i], nil) end
      end
      forget_open(st, at)
      st.loose = false
      return resolved(st, request, msg)
    end
  end
  for _, request in ipairs(st.recent) do
    if request.last and request.last <= msg.first then
      local answers = ANSWERS[request.name]
      if not request.response and answers and answers[msg.size] then
        learn(st, request, msg.size)
        return couple(st, request, msg)
      end
      break
    end
  end
  msg.adrift = st.halves[st.client].lost       -- its request may yet be found
  if msg.adrift or (not st.loose and not first) then
    if #st.waiting < 64 then st.waiting[#st.waiting + 1] = msg end
  else
    st.loose = true
  end
end
