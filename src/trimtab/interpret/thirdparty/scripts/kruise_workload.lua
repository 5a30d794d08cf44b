-- Kruise CloneSets and Advanced StatefulSets: replicas of one pod template.

local FIELDS = { "replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "updatedReadyReplicas",
  "updatedAvailableReplicas", "expectedUpdatedReplicas", "currentReplicas" }

function GetReplicas(desiredObj)
  return integer(at(desiredObj, "spec", "replicas") or 1), requirements_of(at(desiredObj, "spec", "template"))
end

function ReviseReplica(desiredObj, desiredReplica)
  desiredObj.spec.replicas = desiredReplica
  return desiredObj
end

function Retain(desiredObj, observedObj) return retain_replicas(desiredObj, observedObj) end

function ReflectStatus(observedObj)
  return reflect(observedObj, "observedGeneration", "updateRevision", "currentRevision", "labelSelector", unpack(FIELDS))
end

function AggregateStatus(desiredObj, statusItems)
  local status = {}
  for _, field in ipairs(FIELDS) do
    for _, one in ipairs(reported(statusItems)) do
      if one[field] ~= nil then status[field] = (status[field] or 0) + integer(one[field]) end
    end
  end
  for _, one in ipairs(reported(statusItems)) do status.labelSelector = status.labelSelector or one.labelSelector end
  for _, field in ipairs({ "replicas", "readyReplicas", "updatedReplicas", "availableReplicas" }) do
    status[field] = status[field] or 0
  end
  status.observedGeneration = observed_generation(desiredObj, statusItems)
  return with_status(desiredObj, status)
end

-- The pods that a partition keeps at the old revision are meant to be there.
local function updated_replicas(observed)
  local replicas = integer(at(observed, "spec", "replicas") or 1)
  local expected = at(observed, "status", "expectedUpdatedReplicas")
  if expected ~= nil then return math.min(integer(expected), replicas) end
  local partition = at(observed, "spec", "updateStrategy", "rollingUpdate", "partition")
  return replicas - math.min(integer(partition), replicas)
end

function InterpretHealth(observedObj)
  local status = observedObj.status or {}
  if integer(status.observedGeneration) ~= integer(at(observedObj, "metadata", "generation")) then return false end
  if integer(status.updatedReplicas) < updated_replicas(observedObj) then return false end
  return integer(status.availableReplicas) >= integer(at(observedObj, "spec", "replicas") or 1)
end

-- The claims of volumeClaimTemplates are made in the member.
function GetDependencies(desiredObj)
  local found = references(at(desiredObj, "metadata", "namespace"))
  found.add_pod(at(desiredObj, "spec", "template"))
  local own, kept = {}, {}
  for _, claim in each(at(desiredObj, "spec", "volumeClaimTemplates")) do own[at(claim, "metadata", "name") or ""] = true end
  for _, reference in ipairs(found.list) do
    if reference.kind ~= "PersistentVolumeClaim" or not own[reference.name] then kept[#kept + 1] = reference end
  end
  return kept
end
