local over = false
if obj.status ~= nil then
  for _, condition in ipairs(obj.status.conditions or {}) do
    if condition.type == "Complete" and condition.status == "True" then
      over = true
    end
  end
end
return {
  cancel = {
    displayName = "Cancel run",
    iconClass = "fa fa-fw fa-stop-circle",
    disabled = over,
  },
}
