-- One run that reads what is there into the state, on the program that ran last. The Update goes with the Stack.
local os = require("os")
local update = {
  apiVersion = "auto.pulumi.com/v1alpha1",
  kind = "Update",
  metadata = {
    name = obj.metadata.name .. "-refresh-" .. os.date("!%y%m%d%H%M%S"),
    namespace = obj.metadata.namespace,
    annotations = {["argocd.argoproj.io/ignore-resource-updates"] = "true"},
    ownerReferences = {{
      apiVersion = obj.apiVersion,
      kind = obj.kind,
      name = obj.metadata.name,
      uid = obj.metadata.uid,
    }},
  },
  spec = {
    workspaceName = obj.metadata.name,
    stackName = obj.spec.stack,
    type = "refresh",
    ttlAfterCompleted = "24h",
  },
}
return {{operation = "create", resource = update}}
