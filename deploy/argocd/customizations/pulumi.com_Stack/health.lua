-- Health of a Stack. The verdicts are those of the operator's own rule and, where they overlap, of the one that
-- Argo CD brings from 3.6 on. No library is used: Argo CD gives scripts of argocd-cm none.
local health = {status = "Progressing"}
local status = obj.status
if status == nil or status.observedGeneration ~= obj.metadata.generation then
  health.message = "Waiting for the operator to observe the latest spec change"
  return health
end
if obj.spec ~= nil and obj.spec.suspend == true then
  health.status = "Suspended"
  health.message = "The stack is suspended"
  return health
end
-- Asking for a run does not change the generation.
local annotations = obj.metadata.annotations
if annotations ~= nil then
  local requested = annotations["pulumi.com/reconciliation-request"]
  if requested ~= nil and requested ~= status.observedReconcileRequest then
    health.message = "Waiting for the operator to pick up the requested run"
    return health
  end
end
local verdicts = {
  {condition = "Stalled", status = "Degraded"},
  {condition = "Reconciling", status = "Progressing"},
  {condition = "Ready", status = "Healthy"},
}
for _, verdict in ipairs(verdicts) do
  for _, condition in ipairs(status.conditions or {}) do
    if condition.type == verdict.condition and condition.status == "True" then
      health.status = verdict.status
      health.message = condition.message or ""
      return health
    end
  end
end
health.message = "Waiting for the stack to be reconciled"
return health
