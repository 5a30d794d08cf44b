-- Kruise SidecarSets: containers that the member adds to matching pods.

local FIELDS = { "matchedPods", "updatedPods", "readyPods", "updatedReadyPods" }

function ReflectStatus(observedObj)
  return reflect(observedObj, "observedGeneration", "latestRevision", "collisionCount", unpack(FIELDS))
end

function AggregateStatus(desiredObj, statusItems)
  local status = add_sums({}, statusItems, unpack(FIELDS))
  status.observedGeneration = observed_generation(desiredObj, statusItems)
  return with_status(desiredObj, status)
end

function InterpretHealth(observedObj)
  local status = observedObj.status or {}
  if integer(status.observedGeneration) ~= integer(at(observedObj, "metadata", "generation")) then return false end
  if at(observedObj, "spec", "updateStrategy", "type") == "NotUpdate" then return true end
  return integer(status.updatedPods) >= integer(status.matchedPods) and integer(status.updatedReadyPods) >= integer(status.updatedPods)
end

-- The set is cluster-wide: its containers are in the namespace that it names, or in many.
function GetDependencies(desiredObj)
  local namespace = at(desiredObj, "spec", "namespace")
  if namespace == nil then return {} end
  local found = references(namespace)
  found.add_pod({ spec = {
    containers = at(desiredObj, "spec", "containers"), initContainers = at(desiredObj, "spec", "initContainers"),
    volumes = at(desiredObj, "spec", "volumes"), imagePullSecrets = at(desiredObj, "spec", "imagePullSecrets"),
  } })
  return found.list
end
