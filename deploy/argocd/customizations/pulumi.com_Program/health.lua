-- Health of a Program: whether the operator could pack it.
local status = obj.status
if status == nil or status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "Waiting for the operator to observe the program"}
end
if status.artifact == nil then
  return {status = "Degraded", message = "The program cannot be packed; its events say why"}
end
return {status = "Healthy", message = ""}
