if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["pulumi.com/cancel"] = "true"
return obj
