-- Health of one run.
local health = {status = "Progressing", message = "Waiting for the operator to start the run"}
local status = obj.status
if status == nil or status.conditions == nil then
  return health
end
local conditions = {}
for _, condition in ipairs(status.conditions) do
  conditions[condition.type] = condition
end
local function holds(name)
  return conditions[name] ~= nil and conditions[name].status == "True"
end
if holds("Complete") then
  local reason = ""
  if conditions["Failed"] ~= nil then
    reason = conditions["Failed"].reason or ""
  end
  if not holds("Failed") then
    health.status = "Healthy"
    health.message = status.message or "The run succeeded"
  elseif reason == "Superseded" then
    -- Nothing went wrong: another run does what this one was to do.
    health.status = "Healthy"
    health.message = status.message or "Superseded by another run"
  else
    health.status = "Degraded"
    health.message = status.message or reason
  end
  return health
end
if holds("Progressing") then
  health.message = "The run goes on"
elseif conditions["Progressing"] ~= nil then
  local message = conditions["Progressing"].message
  if message ~= nil and message ~= "" then
    health.message = message
  end
end
return health
