-- Kruise UnitedDeployments: one workload per domain of a cluster, made from one of four kinds of template.

local FIELDS = { "replicas", "readyReplicas", "updatedReplicas", "updatedReadyReplicas", "reservedPods" }
local TEMPLATES = { "statefulSetTemplate", "advancedStatefulSetTemplate", "cloneSetTemplate", "deploymentTemplate" }

local function pod_template(obj)
  for _, field in ipairs(TEMPLATES) do
    local template = at(obj, "spec", "template", field, "spec", "template")
    if template ~= nil then return template end
  end
end

function GetReplicas(desiredObj)
  return integer(at(desiredObj, "spec", "replicas") or 1), requirements_of(pod_template(desiredObj))
end

function ReviseReplica(desiredObj, desiredReplica)
  desiredObj.spec.replicas = desiredReplica
  return desiredObj
end

function Retain(desiredObj, observedObj) return retain_replicas(desiredObj, observedObj) end

function ReflectStatus(observedObj)
  return reflect(observedObj, "observedGeneration", "currentRevision", "conditions", unpack(FIELDS))
end

function AggregateStatus(desiredObj, statusItems)
  local status = add_sums({}, statusItems, unpack(FIELDS))
  status.observedGeneration = observed_generation(desiredObj, statusItems)
  status.conditions = merged_conditions(statusItems, { SubsetFailure = true })
  return with_status(desiredObj, status)
end

function InterpretHealth(observedObj)
  local status, replicas = observedObj.status or {}, integer(at(observedObj, "spec", "replicas") or 1)
  if integer(status.observedGeneration) ~= integer(at(observedObj, "metadata", "generation")) then return false end
  return integer(status.updatedReplicas) >= replicas and integer(status.readyReplicas) >= replicas
end

function GetDependencies(desiredObj)
  local found = references(at(desiredObj, "metadata", "namespace"))
  found.add_pod(pod_template(desiredObj))
  return found.list
end
