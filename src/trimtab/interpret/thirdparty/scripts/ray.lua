-- Ray clusters, jobs and services: a head and groups of workers.

local CLUSTER_FIELD = { RayJob = "rayClusterSpec", RayService = "rayClusterConfig" }
local STATES = { "failed", "suspended", "unhealthy", "ready" }
local JOB_STATES = { "FAILED", "STOPPED", "PENDING", "RUNNING", "SUCCEEDED" }
local DEPLOYMENT_STATES = { "Failed", "Retrying", "Suspended", "Suspending", "Waiting", "Initializing", "Running", "Complete" }

local function cluster_of(obj)
  local field = CLUSTER_FIELD[obj.kind]
  if field == nil then return obj.spec or {} end
  return at(obj, "spec", field) or {}
end

local function groups(obj)
  local cluster = cluster_of(obj)
  local found = { { name = "ray-head", replicas = 1, template = at(cluster, "headGroupSpec", "template") } }
  for index, group in each(cluster.workerGroupSpecs) do
    local replicas = integer(group.replicas or group.minReplicas or 0)
    if group.suspend == true then replicas = 0 end
    found[#found + 1] = {
      name = group.groupName or ("workers-" .. index), replicas = replicas * math.max(integer(group.numOfHosts), 1),
      template = group.template,
    }
  end
  return found
end

function GetReplicas(desiredObj) return total_replicas(groups(desiredObj)) end

function GetComponents(desiredObj) return components_of(groups(desiredObj)) end

-- A queue in the member may suspend a cluster or a job. The autoscaler there changes the number of workers and names those
-- to delete.
function Retain(desiredObj, observedObj)
  if desiredObj.spec.suspend == nil then desiredObj.spec.suspend = at(observedObj, "spec", "suspend") end
  local desired, observed = cluster_of(desiredObj), cluster_of(observedObj)
  if desired.enableInTreeAutoscaling ~= true then return desiredObj end
  local there = {}
  for _, group in each(observed.workerGroupSpecs) do there[group.groupName or ""] = group end
  for _, group in each(desired.workerGroupSpecs) do
    local found = there[group.groupName or ""]
    if found ~= nil then
      group.replicas = found.replicas or group.replicas
      group.scaleStrategy = found.scaleStrategy or group.scaleStrategy
    end
  end
  return desiredObj
end

function ReflectStatus(observedObj)
  if observedObj.kind == "RayJob" then
    return reflect(observedObj, "jobStatus", "jobDeploymentStatus", "jobId", "rayClusterName", "dashboardURL", "message",
      "reason", "startTime", "endTime", "succeeded", "failed", "observedGeneration")
  end
  if observedObj.kind == "RayService" then
    return reflect(observedObj, "serviceStatus", "numServeEndpoints", "conditions", "observedGeneration")
  end
  return reflect(observedObj, "state", "reason", "availableWorkerReplicas", "desiredWorkerReplicas", "minWorkerReplicas",
    "maxWorkerReplicas", "readyWorkerReplicas", "conditions", "head", "endpoints", "observedGeneration")
end

local function job_status(items)
  local status = add_sums({}, items, "succeeded", "failed")
  status.jobStatus = worst(items, JOB_STATES, "PENDING", "jobStatus")
  status.jobDeploymentStatus = worst(items, DEPLOYMENT_STATES, "Initializing", "jobDeploymentStatus")
  status.startTime = earliest(items, "startTime")
  if is_one_of(status.jobDeploymentStatus, "Complete", "Failed") then status.endTime = latest(items, "endTime") end
  return status
end

local function service_status(items)
  local status = add_sums({}, items, "numServeEndpoints")
  status.serviceStatus = worst(items, { "Running" }, nil, "serviceStatus")
  status.conditions = merged_conditions(items, { UpgradeInProgress = true })
  return status
end

local function cluster_status(items)
  local status = add_sums({}, items, "availableWorkerReplicas", "desiredWorkerReplicas", "minWorkerReplicas",
    "maxWorkerReplicas", "readyWorkerReplicas")
  status.state = worst(items, STATES, nil, "state")
  status.conditions = merged_conditions(items, { ReplicaFailure = true, RayClusterSuspended = true, RayClusterSuspending = true })
  return status
end

function AggregateStatus(desiredObj, statusItems)
  local make = desiredObj.kind == "RayJob" and job_status or (desiredObj.kind == "RayService" and service_status or cluster_status)
  local status = make(statusItems)
  status.observedGeneration = observed_generation(desiredObj, statusItems)
  return with_status(desiredObj, status)
end

function InterpretHealth(observedObj)
  local status = observedObj.status or {}
  if observedObj.kind == "RayJob" then
    return status.jobStatus ~= nil and not is_one_of(status.jobStatus, "", "FAILED", "STOPPED") and status.jobDeploymentStatus ~= "Failed"
  end
  if observedObj.kind == "RayService" then return is_true(status, "Ready") or status.serviceStatus == "Running" end
  return status.state == "ready" or is_true(status, "RayClusterProvisioned")
end

function GetDependencies(desiredObj)
  local found = references(at(desiredObj, "metadata", "namespace"))
  for _, group in ipairs(groups(desiredObj)) do found.add_pod(group.template) end
  found.add_pod(at(desiredObj, "spec", "submitterPodTemplate"))
  return found.list
end
