-- Interrupts the run that goes on. A run is cancelled on its Update, and Argo CD patches the object that is returned by
-- what differs from the Stack: so this is the Stack under the name of the Update, with the annotation.
local run = obj.status.currentUpdate.name
obj.apiVersion = "auto.pulumi.com/v1alpha1"
obj.kind = "Update"
obj.metadata.name = run
if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["pulumi.com/cancel"] = "true"
return obj
