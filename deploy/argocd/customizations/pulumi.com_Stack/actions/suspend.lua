-- No further run begins; the one that goes on ends as it would. A spec in Git that names `suspend` undoes this with the
-- next sync.
obj.spec.suspend = true
return obj
