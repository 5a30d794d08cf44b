-- Kruise BroadcastJobs: one pod per node, at most `parallelism` at the same time.

local FIELDS = { "active", "succeeded", "failed", "desired" }
local PHASES = { "failed", "paused", "running", "completed" }

function GetReplicas(desiredObj)
  local parallelism = at(desiredObj, "spec", "parallelism")
  return integer(type(parallelism) == "number" and parallelism or 1), requirements_of(at(desiredObj, "spec", "template"))
end

function ReviseReplica(desiredObj, desiredReplica)
  if type(at(desiredObj, "spec", "parallelism")) == "number" then desiredObj.spec.parallelism = desiredReplica end
  return desiredObj
end

-- The controller of the member labels its pods.
function Retain(desiredObj, observedObj)
  local labels = at(observedObj, "spec", "template", "metadata", "labels")
  if labels ~= nil and at(desiredObj, "spec", "template") ~= nil then
    desiredObj.spec.template.metadata = desiredObj.spec.template.metadata or {}
    desiredObj.spec.template.metadata.labels = labels
  end
  return desiredObj
end

function ReflectStatus(observedObj)
  return reflect(observedObj, "phase", "conditions", "startTime", "completionTime", unpack(FIELDS))
end

function AggregateStatus(desiredObj, statusItems)
  local status = add_sums({}, statusItems, unpack(FIELDS))
  status.phase = worst(statusItems, PHASES, "running", "phase")
  status.startTime = earliest(statusItems, "startTime")
  if status.phase == "completed" then status.completionTime = latest(statusItems, "completionTime") end
  status.conditions = merged_conditions(statusItems, { Failed = true })
  return with_status(desiredObj, status)
end

function InterpretHealth(observedObj)
  local status = observedObj.status
  return status ~= nil and status.phase ~= "failed" and integer(status.failed) == 0
end

function GetDependencies(desiredObj)
  local found = references(at(desiredObj, "metadata", "namespace"))
  found.add_pod(at(desiredObj, "spec", "template"))
  return found.list
end
