-- Asks for a run now. Any new value does; the parameter `request` is for people who want to name it.
local os = require("os")
local request = actionParams["request"]
if request == nil or request == "" then
  request = os.date("!%Y-%m-%dT%H:%M:%SZ")
end
if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["pulumi.com/reconciliation-request"] = request
return obj
