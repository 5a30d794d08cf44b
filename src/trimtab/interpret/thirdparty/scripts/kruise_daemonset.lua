-- Kruise Advanced DaemonSets: one pod per node, so there are no replicas to divide.

local FIELDS = { "currentNumberScheduled", "desiredNumberScheduled", "numberAvailable", "numberMisscheduled", "numberReady",
  "numberUnavailable", "updatedNumberScheduled" }

function ReflectStatus(observedObj) return reflect(observedObj, "observedGeneration", "daemonSetHash", unpack(FIELDS)) end

function AggregateStatus(desiredObj, statusItems)
  local status = add_sums({}, statusItems, unpack(FIELDS))
  status.observedGeneration = observed_generation(desiredObj, statusItems)
  return with_status(desiredObj, status)
end

function InterpretHealth(observedObj)
  local status = observedObj.status or {}
  if integer(status.observedGeneration) ~= integer(at(observedObj, "metadata", "generation")) then return false end
  local partition = integer(at(observedObj, "spec", "updateStrategy", "rollingUpdate", "partition"))
  local desired = integer(status.desiredNumberScheduled)
  if integer(status.updatedNumberScheduled) < desired - math.min(partition, desired) then return false end
  return integer(status.numberAvailable) >= desired
end

function GetDependencies(desiredObj)
  local found = references(at(desiredObj, "metadata", "namespace"))
  found.add_pod(at(desiredObj, "spec", "template"))
  return found.list
end
