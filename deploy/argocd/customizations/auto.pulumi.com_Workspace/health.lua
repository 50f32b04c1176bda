-- Health of a workspace. One whose pod was taken away is at rest: pods come with runs.
local health = {status = "Progressing", message = "Waiting for the workspace"}
local status = obj.status
if status == nil or status.observedGeneration ~= obj.metadata.generation then
  return health
end
-- Everything else that keeps a pod from being ready needs somebody: an image that cannot be pulled, a container that
-- keeps ending, no node that fits.
local passing = {
  Installing = true,
  Initializing = true,
  RollingUpdate = true,
  WaitingForReplicas = true,
  ConnectionFailed = true,
}
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Ready" then
    health.message = condition.message or ""
    if condition.status == "True" then
      health.status = "Healthy"
    elseif condition.reason == "Deleting" then
      health.status = "Suspended"
      health.message = "No pod; the next run brings one"
    elseif not passing[condition.reason] then
      health.status = "Degraded"
    end
  end
end
return health
