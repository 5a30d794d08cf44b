-- Spark applications: a driver and its executors. Memory is written as in Java, and the pods get an overhead on top of it.

local STATES = { "FAILED", "SUBMISSION_FAILED", "FAILING", "INVALIDATING", "PENDING_RERUN", "UNKNOWN", "", "SUBMITTED",
  "PENDING_SUBMISSION", "RUNNING", "SUSPENDED", "SUSPENDING", "RESUMING", "SUCCEEDING", "COMPLETED" }
local LEAST_OVERHEAD = 384 * 1048576

local function memory_of(spec, pod)
  local memory = java_bytes(pod.memory or "1g")
  if pod.memoryOverhead ~= nil then return memory + java_bytes(pod.memoryOverhead) end
  local factor = tonumber(spec.memoryOverheadFactor) or (is_one_of(spec.type, "Python", "R") and 0.4 or 0.1)
  return memory + math.max(memory * factor, LEAST_OVERHEAD)
end

local function needs_of(spec, pod)
  local needs = { resourceRequest = {
    cpu = tostring(pod.coreRequest or pod.cores or 1), memory = mebibytes(memory_of(spec, pod)),
  } }
  if at(pod, "gpu", "name") ~= nil then needs.resourceRequest[pod.gpu.name] = tostring(pod.gpu.quantity or 1) end
  local template = { spec = {
    nodeSelector = pod.nodeSelector or spec.nodeSelector, tolerations = pod.tolerations, affinity = pod.affinity, containers = {},
  } }
  needs.nodeClaim = at(kube.accuratePodRequirements(template), "nodeClaim")
  return needs
end

local function executors(spec)
  local dynamic = spec.dynamicAllocation
  if at(dynamic, "enabled") == true then
    return math.max(integer(dynamic.initialExecutors), integer(dynamic.minExecutors), integer(at(spec, "executor", "instances")), 1)
  end
  return integer(at(spec, "executor", "instances") or 1)
end

local function groups(obj)
  local spec = obj.spec or {}
  return {
    { name = "driver", replicas = 1, needs = needs_of(spec, spec.driver or {}) },
    { name = "executor", replicas = executors(spec), needs = needs_of(spec, spec.executor or {}) },
  }
end

function GetReplicas(desiredObj)
  local replicas, needs = 0, {}
  for _, group in ipairs(groups(desiredObj)) do
    replicas = replicas + group.replicas
    needs[#needs + 1] = group.needs
  end
  return replicas, largest(needs)
end

function GetComponents(desiredObj)
  local found = {}
  for _, group in ipairs(groups(desiredObj)) do
    found[#found + 1] = { name = group.name, replicas = group.replicas, replicaRequirements = group.needs }
  end
  return found
end

-- A queue in the member may suspend an application.
function Retain(desiredObj, observedObj)
  if desiredObj.spec.suspend == nil then desiredObj.spec.suspend = at(observedObj, "spec", "suspend") end
  return desiredObj
end

function ReflectStatus(observedObj)
  return reflect(observedObj, "applicationState", "sparkApplicationId", "submissionID", "driverInfo", "executorState",
    "executionAttempts", "submissionAttempts", "lastSubmissionAttemptTime", "terminationTime")
end

function AggregateStatus(desiredObj, statusItems)
  local status = add_sums({}, statusItems, "executionAttempts", "submissionAttempts")
  local messages, states = {}, {}
  for _, item in each(statusItems) do
    local message = at(item, "status", "applicationState", "errorMessage")
    if message ~= nil and message ~= "" then messages[#messages + 1] = item.clusterName .. ": " .. message end
    for name, state in pairs(at(item, "status", "executorState") or {}) do states[item.clusterName .. "/" .. name] = state end
  end
  status.applicationState = { state = worst(statusItems, STATES, "", "applicationState", "state") }
  if #messages > 0 then status.applicationState.errorMessage = table.concat(messages, "; ") end
  if next(states) ~= nil then status.executorState = states end
  status.lastSubmissionAttemptTime = latest(statusItems, "lastSubmissionAttemptTime")
  if is_one_of(status.applicationState.state, "COMPLETED", "FAILED") then
    status.terminationTime = latest(statusItems, "terminationTime")
  end
  return with_status(desiredObj, status)
end

function InterpretHealth(observedObj)
  return is_one_of(at(observedObj, "status", "applicationState", "state"), "SUBMITTED", "RUNNING", "SUCCEEDING", "COMPLETED")
end

local function add_names(found, kind, list)
  for _, one in each(list) do found.add("v1", kind, type(one) == "table" and one.name or one) end
end

function GetDependencies(desiredObj)
  local spec = desiredObj.spec or {}
  local found = references(at(desiredObj, "metadata", "namespace"))
  found.add("v1", "ConfigMap", spec.sparkConfigMap)
  found.add("v1", "ConfigMap", spec.hadoopConfigMap)
  add_names(found, "Secret", spec.imagePullSecrets)
  for _, name in ipairs({ "driver", "executor" }) do
    local pod = spec[name] or {}
    if pod.serviceAccount ~= "default" then found.add("v1", "ServiceAccount", pod.serviceAccount) end
    add_names(found, "ConfigMap", pod.configMaps)
    add_names(found, "Secret", pod.secrets)
    found.add_pod({ spec = { volumes = spec.volumes, initContainers = pod.initContainers,
      containers = { { name = name, env = pod.env, envFrom = pod.envFrom } } } })
    found.add_pod(pod.template)
  end
  return found.list
end
