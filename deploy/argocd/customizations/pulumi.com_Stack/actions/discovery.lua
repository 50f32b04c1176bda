local spec = obj.spec or {}
local status = obj.status or {}
local suspended = spec.suspend == true
local running = status.currentUpdate ~= nil and status.currentUpdate.name ~= nil
local ran = status.lastUpdate ~= nil

return {
  reconcile = {
    displayName = "Reconcile",
    iconClass = "fa fa-fw fa-sync",
    disabled = suspended,
    params = {{name = "request"}},
  },
  refresh = {
    displayName = "Refresh state",
    iconClass = "fa fa-fw fa-cloud-download-alt",
    disabled = suspended or not ran,
  },
  cancel = {
    displayName = "Cancel run",
    iconClass = "fa fa-fw fa-stop-circle",
    disabled = not running,
  },
  suspend = {
    displayName = "Suspend",
    iconClass = "fa fa-fw fa-pause",
    disabled = suspended,
  },
  resume = {
    displayName = "Resume",
    iconClass = "fa fa-fw fa-play",
    disabled = not suspended,
  },
}
