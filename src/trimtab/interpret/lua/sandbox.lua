-- The global environment of a script. Runs once in a fresh state, before the script, and removes all other globals.
--
-- state: shared with the host, which reads it after the script has run or failed
--   left     instructions the script may still spend
--   spent    true once they are used up; from then on every instruction fails, so that pcall cannot hide it
--   printed  lines passed to print
--   now      the result of os.time() (seconds)
-- host: the functions of the kube library; each returns (true, result) or (false, message)
local state, host = ...

local byte, sub, find, char, format = string.byte, string.sub, string.find, string.char, string.format
local lower, upper, reverse, length = string.lower, string.upper, string.reverse, string.len
local concat, insert, remove, sort, maxn, getn = table.concat, table.insert, table.remove, table.sort, table.maxn, table.getn
local sethook, raw_pcall, raw_date, raw_time, collect = debug.sethook, pcall, os.date, os.time, collectgarbage
local type, error, tostring, tonumber, select, pairs, ipairs, unpack = type, error, tostring, tonumber, select, pairs, ipairs, unpack
local floor = math.floor

local STEP, MAX_LENGTH, MAX_PRINT_LENGTH, MAX_PRINTS = 1000, 1000000, 1000, 100

local function out_of_budget()
  state.spent = true
  sethook(out_of_budget, "", 1)
  error("the script used up its instructions", 0)
end

-- The count hook does not see work inside a C function, so it is charged by the size of the arguments.
local function charge(amount)
  state.left = state.left - amount
  if state.left <= 0 then out_of_budget() end
end

local function tick() charge(STEP) end

-- Each of these calls back from C, and C allows 200 levels; at the last one the hook itself has no level left to run
-- in, so instructions of a script at that depth would not be counted.
local MAX_DEPTH, depth = 50, 0
local function enter()
  if depth >= MAX_DEPTH then error("calls are protected or sorted within one another more than " .. MAX_DEPTH .. " times", 0) end
  depth = depth + 1
  return depth
end

local function finish(level, ...)
  depth = level - 1
  if state.spent then out_of_budget() end
  return ...
end

local function guarded_call(call, ...) return finish(enter(), raw_pcall(call, ...)) end

-- The handler of the original xpcall runs inside the hook, where instructions are not counted; here it runs after the
-- stack is unwound.
local function call_handler(handler, succeeded, ...)
  if succeeded then return true, ... end
  local _, result = guarded_call(handler, ...)
  return false, result
end
local function guarded_xcall(call, handler) return call_handler(handler, guarded_call(call)) end

local function unavailable(name)
  return function() error("the function " .. name .. " is not available to scripts", 2) end
end

local function check_string(value, position, name)
  local kind = type(value)
  if kind == "number" then value = tostring(value)
  elseif kind ~= "string" then
    error("bad argument #" .. position .. " to '" .. name .. "' (string expected, got " .. (value == nil and "no value" or kind) .. ")", 3)
  end
  if #value > MAX_LENGTH then error("a string of " .. #value .. " bytes is longer than the " .. MAX_LENGTH .. " that " .. name .. " takes", 3) end
  charge(#value / 16)
  return value
end

-- Patterns. The C matcher cannot be interrupted, and 'a*a*a*…b' runs for hours; the steps of this one are counted.
local ONE, STAR, PLUS, MINUS, MAYBE, OPEN, POSITION_CAPTURE, CLOSE, STOP, BACK, BALANCE, FRONTIER = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
local REPEATS = { ["*"] = STAR, ["+"] = PLUS, ["-"] = MINUS, ["?"] = MAYBE }
local POSITION, UNFINISHED = -1, -2

local function between(low, high) return function(b) return b >= low and b <= high end end
local function either_of(one, other) return function(b) return one(b) or other(b) end end
local function not_in(test) return function(b) return not test(b) end end
local digit, small, capital = between(48, 57), between(97, 122), between(65, 90)
local letter, space = either_of(small, capital), function(b) return b == 32 or (b >= 9 and b <= 13) end
local word = either_of(letter, digit)
local CLASSES = {
  a = letter, d = digit, l = small, u = capital, w = word, s = space,
  c = function(b) return b < 32 or b == 127 end,
  p = function(b) return b > 32 and b < 127 and not word(b) end,
  x = either_of(digit, either_of(between(97, 102), between(65, 70))),
  z = function(b) return b == 0 end,
}

local function class(name)
  local test = CLASSES[lower(name)]
  if not test then
    local wanted = byte(name)
    return function(b) return b == wanted end
  end
  return name == lower(name) and test or not_in(test)
end

local function read_set(pattern, at) -- `at` is the position after the '['
  local tests, negated = {}, sub(pattern, at, at) == "^"
  if negated then at = at + 1 end
  local first = true
  while true do
    local c = sub(pattern, at, at)
    if c == "" then error("malformed pattern (missing ']')", 0) end
    if c == "]" and not first then break end
    first = false
    if c == "%" then
      if at == #pattern then error("malformed pattern (ends with '%')", 0) end
      tests[#tests + 1] = class(sub(pattern, at + 1, at + 1))
      at = at + 2
    elseif sub(pattern, at + 1, at + 1) == "-" and sub(pattern, at + 2, at + 2) ~= "]" and at + 2 <= #pattern then
      tests[#tests + 1] = between(byte(c), byte(pattern, at + 2))
      at = at + 3
    else
      tests[#tests + 1] = between(byte(c), byte(c))
      at = at + 1
    end
  end
  local function test(b)
    for index = 1, #tests do
      if tests[index](b) then return true end
    end
    return false
  end
  return negated and not_in(test) or test, at + 1
end

local function read_single(pattern, at)
  local c = sub(pattern, at, at)
  if c == "." then return function() return true end, at + 1 end
  if c == "[" then return read_set(pattern, at + 1) end
  if c == "%" then
    if at == #pattern then error("malformed pattern (ends with '%')", 0) end
    return class(sub(pattern, at + 1, at + 1)), at + 2
  end
  local wanted = byte(c)
  return function(b) return b == wanted end, at + 1
end

local function read_pattern(pattern)
  local items, at, anchored = {}, 1, sub(pattern, 1, 1) == "^"
  if anchored then at = 2 end
  while at <= #pattern do
    local c, after = sub(pattern, at, at), sub(pattern, at + 1, at + 1)
    if c == "(" then
      items[#items + 1] = { kind = after == ")" and POSITION_CAPTURE or OPEN }
      at = at + (after == ")" and 2 or 1)
    elseif c == ")" then
      items[#items + 1] = { kind = CLOSE }
      at = at + 1
    elseif c == "$" and at == #pattern then
      items[#items + 1] = { kind = STOP }
      at = at + 1
    elseif c == "%" and after == "b" then
      if at + 3 > #pattern then error("unbalanced pattern", 0) end
      items[#items + 1] = { kind = BALANCE, open = byte(pattern, at + 2), close = byte(pattern, at + 3) }
      at = at + 4
    elseif c == "%" and after == "f" then
      if sub(pattern, at + 2, at + 2) ~= "[" then error("missing '[' after '%f' in pattern", 0) end
      local test, next_at = read_set(pattern, at + 3)
      items[#items + 1] = { kind = FRONTIER, test = test }
      at = next_at
    elseif c == "%" and after ~= "" and digit(byte(after)) then
      items[#items + 1] = { kind = BACK, which = tonumber(after) }
      at = at + 2
    else
      local test, next_at = read_single(pattern, at)
      local repetition = REPEATS[sub(pattern, next_at, next_at)]
      items[#items + 1] = { kind = repetition or ONE, test = test }
      at = next_at + (repetition and 1 or 0)
    end
  end
  return items, anchored
end

local function matcher(subject, items)
  local size, level, starts, lengths = #subject, 0, {}, {}
  local match

  local function fits(item, at) return at <= size and item.test(byte(subject, at)) end

  local function match_longest(item, at, index)
    local last, least = at, item.kind == PLUS and at + 1 or at
    while fits(item, last) do last = last + 1 end
    while last >= least do
      local found = match(last, index + 1)
      if found then return found end
      last = last - 1
    end
  end

  local function match_shortest(item, at, index)
    while true do
      local found = match(at, index + 1)
      if found then return found end
      if not fits(item, at) then return nil end
      at = at + 1
    end
  end

  local function open_capture(length, at, index)
    level = level + 1
    starts[level], lengths[level] = at, length
    local found = match(at, index + 1)
    if not found then level = level - 1 end
    return found
  end

  local function close_capture(at, index)
    local which = level
    while which > 0 and lengths[which] ~= UNFINISHED do which = which - 1 end
    if which == 0 then error("invalid pattern capture", 0) end
    lengths[which] = at - starts[which]
    local found = match(at, index + 1)
    if not found then lengths[which] = UNFINISHED end
    return found
  end

  local function match_back_reference(item, at)
    local which = item.which
    if which < 1 or which > level or lengths[which] < 0 then error("invalid capture index", 0) end
    local wanted = sub(subject, starts[which], starts[which] + lengths[which] - 1)
    charge(#wanted / 16)
    return sub(subject, at, at + #wanted - 1) == wanted and at + #wanted or nil
  end

  local function match_balanced(item, at)
    if byte(subject, at) ~= item.open then return nil end
    local depth = 1
    for position = at + 1, size do
      local b = byte(subject, position)
      if b == item.close then
        depth = depth - 1
        if depth == 0 then return position + 1 end
      elseif b == item.open then
        depth = depth + 1
      end
    end
  end

  local function is_frontier(item, at)
    local before, here = byte(subject, at - 1) or 0, byte(subject, at) or 0
    if at == 1 then before = 0 end
    return not item.test(before) and item.test(here)
  end

  match = function(at, index)
    while true do
      local item = items[index]
      if not item then return at end
      local kind = item.kind
      if kind == ONE then
        if not fits(item, at) then return nil end
        at = at + 1
      elseif kind == STAR or kind == PLUS then return match_longest(item, at, index)
      elseif kind == MINUS then return match_shortest(item, at, index)
      elseif kind == MAYBE then
        local found = fits(item, at) and match(at + 1, index + 1)
        if found then return found end
      elseif kind == OPEN then return open_capture(UNFINISHED, at, index)
      elseif kind == POSITION_CAPTURE then return open_capture(POSITION, at, index)
      elseif kind == CLOSE then return close_capture(at, index)
      elseif kind == STOP then
        if at ~= size + 1 then return nil end
      elseif kind == BACK then
        at = match_back_reference(item, at)
        if not at then return nil end
      elseif kind == BALANCE then
        at = match_balanced(item, at)
        if not at then return nil end
      elseif not is_frontier(item, at) then return nil
      end
      index = index + 1
    end
  end

  local function capture(which)
    if lengths[which] == POSITION then return starts[which] end
    if lengths[which] == UNFINISHED then error("unfinished capture", 0) end
    return sub(subject, starts[which], starts[which] + lengths[which] - 1)
  end

  local function captures()
    local found = {}
    for which = 1, level do found[which] = capture(which) end
    return found, level
  end

  local function try(at)
    level = 0
    return match(at, 1)
  end
  return try, captures
end

local function first_match(subject, pattern, init)
  local items, anchored = read_pattern(pattern)
  local try, captures = matcher(subject, items)
  for at = init, anchored and init or #subject + 1 do
    local stop = try(at)
    if stop then return at, stop, captures end
  end
end

local function start_position(subject, init)
  init = floor(tonumber(init) or 1)
  if init < 0 then init = #subject + init + 1 end
  if init < 1 then init = 1 end
  return init > #subject + 1 and #subject + 1 or init
end

local function safe_find(subject, pattern, init, plain)
  subject, pattern = check_string(subject, 1, "find"), check_string(pattern, 2, "find")
  init = start_position(subject, init)
  if plain or not find(pattern, "[%^%$%*%+%?%.%(%[%%%-]") then
    charge(#subject * #pattern / 64) -- the worst case of a plain search
    return find(subject, pattern, init, true)
  end
  local start, stop, captures = first_match(subject, pattern, init)
  if not start then return nil end
  local found, count = captures()
  return start, stop - 1, unpack(found, 1, count)
end

local function whole_or_captures(subject, start, stop, captures)
  local found, count = captures()
  if count == 0 then return sub(subject, start, stop - 1) end
  return unpack(found, 1, count)
end

local function safe_match(subject, pattern, init)
  subject, pattern = check_string(subject, 1, "match"), check_string(pattern, 2, "match")
  init = start_position(subject, init)
  local start, stop, captures = first_match(subject, pattern, init)
  if start then return whole_or_captures(subject, start, stop, captures) end
  return nil
end

local function safe_gmatch(subject, pattern)
  subject, pattern = check_string(subject, 1, "gmatch"), check_string(pattern, 2, "gmatch")
  local items, anchored = read_pattern(pattern)
  local try, captures = matcher(subject, items)
  local at, last = 1, anchored and 1 or #subject + 1
  return function()
    while at <= last do
      local start, stop = at, try(at)
      at = at + 1
      if stop then
        if stop > start then at = stop end
        return whole_or_captures(subject, start, stop, captures)
      end
    end
    return nil
  end
end

local function with_string_argument(name, call)
  return function(value, ...) return call(check_string(value, 1, name), ...) end
end

local strings = {
  byte = with_string_argument("byte", byte), sub = with_string_argument("sub", sub), lower = with_string_argument("lower", lower),
  upper = with_string_argument("upper", upper), reverse = with_string_argument("reverse", reverse), format = with_string_argument("format", format),
  len = length, char = char, find = safe_find, match = safe_match, gmatch = safe_gmatch, gfind = safe_gmatch,
  gsub = unavailable("string.gsub"), rep = unavailable("string.rep"), dump = unavailable("string.dump"),
}
-- ("x"):method() uses the string library as well, so it is changed in place.
for name in pairs(string) do string[name] = nil end
for name, call in pairs(strings) do string[name] = call end

local function charge_by_length(call)
  return function(list, ...)
    if type(list) == "table" then charge(#list / 8) end
    return call(list, ...)
  end
end
local function guarded_sort(list, order)
  local level = enter()
  sort(list, order)
  depth = level - 1
end
local tables = { concat = charge_by_length(concat), insert = charge_by_length(insert), remove = charge_by_length(remove), sort = charge_by_length(guarded_sort), maxn = charge_by_length(maxn), getn = getn }
for name in pairs(table) do table[name] = nil end
for name, call in pairs(tables) do table[name] = call end

math.random, math.randomseed = unavailable("math.random"), unavailable("math.randomseed")

local clock = {
  time = function(parts) if parts ~= nil then return raw_time(parts) end return state.now end,
  date = function(format_string, time) return raw_date(format_string and check_string(format_string, 1, "date") or "%c", time or state.now) end,
}

local kube = {}
for name, call in pairs(host) do
  kube[name] = function(...)
    charge(20 * STEP) -- it converts whole tables, which the count hook does not see
    local succeeded, result = call(select("#", ...), ...)
    if succeeded then return result end
    error("kube." .. name .. ": " .. result, 2)
  end
end

local libraries = { kube = kube, string = string, table = table, math = math, os = clock }
local function safe_require(name)
  local library = libraries[name]
  if library == nil then error("module '" .. tostring(name) .. "' not found; scripts can require 'kube'", 2) end
  return library
end

local function safe_print(...)
  local parts, printed = {}, state.printed
  if #printed >= MAX_PRINTS then return end
  for index = 1, select("#", ...) do parts[index] = tostring((select(index, ...))) end
  printed[#printed + 1] = sub(concat(parts, "\t"), 1, MAX_PRINT_LENGTH)
end

-- From here on every instruction and every byte counts: no garbage is collected while the script runs, because copying
-- and dropping large strings would otherwise allow unlimited work for a few instructions.
local function start()
  collect("stop")
  sethook(tick, "", STEP)
end

local function safe_tonumber(value, base)
  if type(value) == "string" then value = check_string(value, 1, "tonumber") end
  if base == nil then return tonumber(value) end
  return tonumber(value, base)
end

local allowed = {
  assert = assert, error = error, ipairs = ipairs, next = next, pairs = pairs, select = select, tonumber = safe_tonumber,
  tostring = tostring, type = type, unpack = unpack, _VERSION = _VERSION, string = string, table = table, math = math,
  os = clock, require = safe_require, print = safe_print, pcall = guarded_call, xpcall = guarded_xcall,
}
for _, name in ipairs({ "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "rawequal",
  "rawget", "rawset", "setfenv", "setmetatable", "module", "newproxy" }) do
  allowed[name] = unavailable(name)
end
local globals = _G
for name in pairs(globals) do globals[name] = nil end
for name, value in pairs(allowed) do globals[name] = value end
globals._G = globals

return start
