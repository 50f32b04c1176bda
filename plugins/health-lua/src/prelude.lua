-- What Argo CD's interpreter (gopher-lua: Lua 5.1 with goto) does otherwise than this one, which runs as Lua 5.2. The
-- chunk gets functions of the host, and takes out of the globals what scripts shall not have.
return function(open, clock, civil, date)

local G, type, error, next, rawset, rawget = _G, type, error, next, rawset, rawget
local tostring_, tonumber_, load_ = tostring, tonumber, load
local find, match, format, floor, abs = string.find, string.match, string.format, math.floor, math.abs
local insert_, remove_, concat_, unpack_ = table.insert, table.remove, table.concat, table.unpack

local function check(value, wanted, at, name)
  if type(value) ~= wanted then
    error("bad argument #" .. at .. " to " .. name .. " (" .. wanted .. " expected, got " .. type(value) .. ")", 3)
  end
  return value
end

-- Metamethods of 5.2 are not asked, and only tables are walked.
function pairs(t)
  check(t, "table", 1, "pairs")
  return next, t, nil
end

local function step(t, i)
  i = i + 1
  local value = rawget(t, i)
  if value ~= nil then
    return i, value
  end
end

function ipairs(t)
  check(t, "table", 1, "ipairs")
  return step, t, 0
end

-- A whole number has no exponent, another one as few digits as say which it is.
function tostring(...)
  local value = ...
  if type(value) ~= "number" or value ~= value or value == 1 / 0 or value == -1 / 0 then
    return tostring_(...)
  end
  if value == floor(value) and abs(value) < 2 ^ 63 then
    return format("%d", value)
  end
  for digits = 14, 17 do
    local text = format("%." .. digits .. "g", value)
    if tonumber_(text) == value then
      return text
    end
  end
  return tostring_(value)
end

-- Without a point only whole numbers are numbers.
function tonumber(...)
  local value, base = ...
  if type(value) == "string" and base == nil and not find(value, ".", 1, true)
      and not find(value, "^[ \n\t]*[+-]?%d+[ \n\t]*$") and not find(value, "^[ \n\t]*0[xX]%x+[ \n\t]*$") then
    return nil
  end
  return tonumber_(...)
end

function unpack(t, first, last)
  check(t, "table", 1, "unpack")
  return unpack_(t, first or 1, last or #t)
end

-- Text only, and not without end: reading code is no instruction that is counted.
local loadable = 256 * 1024
local function read(text, name)
  loadable = loadable - #text
  if loadable < 0 then
    return nil, "more than 256 KiB of code"
  end
  return load_(text, name, "t")
end

function loadstring(text, name)
  return read(check(text, "string", 1, "loadstring"), name or "<string>")
end

function load(reader, name)
  check(reader, "function", 1, "load")
  local parts, size = {}, 0
  while true do
    local part = reader()
    if part == nil or part == "" then
      break
    end
    if type(part) ~= "string" and type(part) ~= "number" then
      return nil, "reader function must return a string"
    end
    parts[#parts + 1] = part
    size = size + #tostring_(part)
    if size > loadable then
      return nil, "more than 256 KiB of code"
    end
  end
  return read(concat_(parts), name or "?")
end

function collectgarbage() end
function print() end

function table.getn(t)
  return #check(t, "table", 1, "getn")
end

function table.maxn(t)
  local most = 0
  for key in next, check(t, "table", 1, "maxn") do
    if type(key) == "number" and key > most then
      most = key
    end
  end
  return most
end

-- Positions outside of the table are no errors.
function table.insert(t, ...)
  local count = select("#", ...)
  check(t, "table", 1, "insert")
  if count < 2 then
    if count == 0 then
      error("wrong number of arguments", 2)
    end
    local value = ...
    if value ~= nil then
      insert_(t, value)
    end
    return
  end
  local at, value = ...
  check(at, "number", 2, "insert")
  if at < 1 or at > #t then
    rawset(t, at, value)
  else
    insert_(t, at, value)
  end
end

function table.remove(t, at)
  local last = #check(t, "table", 1, "remove")
  if last == 0 or at ~= nil and at > last then
    return nil
  end
  if at == nil or at < 1 then
    return remove_(t)
  end
  return remove_(t, at)
end

function table.concat(t, between, first, last)
  local length = #check(t, "table", 1, "concat")
  if first ~= nil and last == nil and (first > length or first < 1) then
    return ""
  end
  first, last = first or 1, last or length
  first, last = first < 1 and 1 or first, last > length and length or last
  return concat_(t, between or "", first, last)
end

table.pack, table.unpack = nil, nil

local function number(t, key, default)
  local value = rawget(t, key)
  return type(value) == "number" and value or default
end

-- The interpreter's own `os`, which scripts have with open libraries, takes numbers in strings too.
local function parsed(t, key, default)
  local value = rawget(t, key)
  if type(value) == "string" then
    value = tonumber_(match(value, "^ *0*(%d.*)$") or value)
  end
  return type(value) == "number" and value or default
end

local function time(field, name, default)
  return function(...)
    local t = ...
    if select("#", ...) == 0 or t == nil and default then
      return clock
    end
    check(t, "table", 1, name)
    return civil(field(t, "year", -1), field(t, "month", -1), field(t, "day", -1),
      field(t, "hour", 12), field(t, "min", 0), field(t, "sec", 0))
  end
end

local function dated(pattern, at)
  pattern = pattern == nil and "%c" or check(pattern, "string", 1, "date")
  pattern = match(pattern, "^!*(.*)$")
  if find(pattern, "*t", 1, true) == 1 then
    local year, month, day, hour, min, sec, weekday = civil(at or clock)
    return {
      year = year, month = month, day = day, hour = hour, min = min, sec = sec, wday = weekday + 1,
      yday = 0, isdst = false,
    }
  end
  return date(pattern, at or clock)
end

-- Argo CD's own `os`, to be had by `require` alone.
local safe = { time = time(number, "time", false), date = dated }
local loaded = { _G = G, table = table }
if open then
  os = { time = time(parsed, "time", true), date = dated, clock = function() return 0 end }
  os.difftime = function(a, b) return a - (b or 0) end
  local rep = string.rep
  string.dump, string.rep = nil, function(text, count) return rep(text, count) end
  math.mod = math.fmod
  loaded.string, loaded.math, loaded.coroutine, loaded.os = string, math, coroutine, os
else
  os, string, math, coroutine = nil, nil, nil, nil
  -- What is left there adds texts that are numbers.
  getmetatable("").__index = nil
end
package = { loaded = loaded, preload = {}, path = "", cpath = "" }

function require(name)
  check(name, "string", 1, "require")
  if loaded[name] == nil then
    local loader = name == "os" and function() return safe end or package.preload[name]
    if loader == nil then
      error("module " .. name .. " not found: a health script has only os", 2)
    end
    local module = loader(name)
    loaded[name] = module == nil and true or module
  end
  return loaded[name]
end

_VERSION = "Lua 5.1"
io, debug, bit32, utf8, dofile, loadfile, rawlen = nil, nil, nil, nil, nil, nil, nil
end
