-- Kubeflow training jobs: groups of pods by role, under a field that differs by kind.

local GROUPS = { PyTorchJob = "pytorchReplicaSpecs", TFJob = "tfReplicaSpecs", XGBoostJob = "xgbReplicaSpecs",
  PaddleJob = "paddleReplicaSpecs", MPIJob = "mpiReplicaSpecs", JAXJob = "jaxReplicaSpecs" }

local function groups(job)
  local specs, found = at(job, "spec", GROUPS[job.kind]), {}
  for _, role in ipairs(sorted_keys(specs)) do
    local group = specs[role]
    found[#found + 1] = { name = string.lower(role), replicas = integer(group.replicas or 1), template = group.template }
  end
  return found
end

function GetReplicas(desiredObj) return total_replicas(groups(desiredObj)) end

function GetComponents(desiredObj) return components_of(groups(desiredObj)) end

-- A queue in the member may suspend a job; an elastic PyTorchJob is scaled there.
function Retain(desiredObj, observedObj)
  local suspend = at(observedObj, "spec", "runPolicy", "suspend")
  if suspend ~= nil and at(desiredObj, "spec", "runPolicy", "suspend") == nil then
    desiredObj.spec.runPolicy = desiredObj.spec.runPolicy or {}
    desiredObj.spec.runPolicy.suspend = suspend
  end
  local replicas = at(observedObj, "spec", "pytorchReplicaSpecs", "Worker", "replicas")
  if at(desiredObj, "spec", "elasticPolicy") ~= nil and replicas ~= nil and at(desiredObj, "spec", "pytorchReplicaSpecs", "Worker") ~= nil then
    desiredObj.spec.pytorchReplicaSpecs.Worker.replicas = replicas
  end
  return desiredObj
end

function ReflectStatus(observedObj)
  return reflect(observedObj, "conditions", "replicaStatuses", "startTime", "completionTime", "lastReconcileTime")
end

local function sum_roles(items)
  local roles = {}
  for _, status in ipairs(reported(items)) do
    for role, counts in pairs(status.replicaStatuses or {}) do
      roles[role] = roles[role] or {}
      for _, field in ipairs({ "active", "succeeded", "failed" }) do
        if counts[field] ~= nil then roles[role][field] = (roles[role][field] or 0) + integer(counts[field]) end
      end
    end
  end
  return roles
end

-- The job has failed when it has failed in one cluster, and succeeded when it has succeeded in all of them.
function AggregateStatus(desiredObj, statusItems)
  local status = { startTime = earliest(statusItems, "startTime"), lastReconcileTime = latest(statusItems, "lastReconcileTime") }
  local roles = sum_roles(statusItems)
  if next(roles) ~= nil then status.replicaStatuses = roles end
  status.conditions = merged_conditions(statusItems, { Failed = true, Restarting = true, Suspended = true, Running = true })
  local finished = #statusItems > 0
  for _, item in each(statusItems) do finished = finished and at(item, "status", "completionTime") ~= nil end
  if finished then status.completionTime = latest(statusItems, "completionTime") end
  return with_status(desiredObj, status)
end

function InterpretHealth(observedObj)
  local status = observedObj.status
  if status == nil or is_true(status, "Failed") then return false end
  return is_true(status, "Running") or is_true(status, "Succeeded") or is_true(status, "Created") or is_true(status, "Suspended")
end

function GetDependencies(desiredObj)
  local found = references(at(desiredObj, "metadata", "namespace"))
  for _, group in ipairs(groups(desiredObj)) do found.add_pod(group.template) end
  return found.list
end
