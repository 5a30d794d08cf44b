-- Kubeflow notebooks: one pod, which the culler of the member stops with an annotation.

local STOPPED = "kubeflow-resource-stopped"
local KEPT = { STOPPED, "notebooks.kubeflow.org/last-activity", "notebooks.kubeflow.org/last_activity_check_timestamp" }

function GetReplicas(desiredObj)
  local stopped = at(desiredObj, "metadata", "annotations", STOPPED) ~= nil
  return stopped and 0 or 1, requirements_of(at(desiredObj, "spec", "template"))
end

function Retain(desiredObj, observedObj)
  for _, name in ipairs(KEPT) do
    local value = at(observedObj, "metadata", "annotations", name)
    if value ~= nil and at(desiredObj, "metadata", "annotations", name) == nil then
      desiredObj.metadata.annotations = desiredObj.metadata.annotations or {}
      desiredObj.metadata.annotations[name] = value
    end
  end
  return desiredObj
end

function ReflectStatus(observedObj) return reflect(observedObj, "conditions", "containerState", "readyReplicas") end

function AggregateStatus(desiredObj, statusItems)
  local status = add_sums({}, statusItems, "readyReplicas")
  status.conditions = merged_conditions(statusItems, {})
  for _, one in ipairs(reported(statusItems)) do
    if status.containerState == nil or one.readyReplicas ~= 1 then status.containerState = one.containerState end
  end
  return with_status(desiredObj, status)
end

function InterpretHealth(observedObj)
  if at(observedObj, "metadata", "annotations", STOPPED) ~= nil then return true end
  return integer(at(observedObj, "status", "readyReplicas")) >= 1
end

function GetDependencies(desiredObj)
  local found = references(at(desiredObj, "metadata", "namespace"))
  found.add_pod(at(desiredObj, "spec", "template"))
  return found.list
end
