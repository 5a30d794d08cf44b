-- Flink deployments: one job manager and the task managers that its job needs.

local JOB_STATES = { "FAILED", "FAILING", "SUSPENDED", "CANCELED", "CANCELLING", "RESTARTING", "RECONCILING", "CREATED",
  "INITIALIZING", "RUNNING", "FINISHED" }
local MANAGER_STATES = { "ERROR", "MISSING", "DEPLOYING", "DEPLOYED_NOT_READY", "READY" }
local LIFECYCLES = { "FAILED", "ROLLING_BACK", "ROLLED_BACK", "SUSPENDED", "UPGRADING", "CREATED", "DEPLOYED", "STABLE" }

-- Flink means mebibytes by 2048m; as a quantity of Kubernetes it is about two bytes.
local function memory_of(text)
  if FLINK_MEMORY_UNITS then return mebibytes(java_bytes(text)) end
  local bytes = kube.getResourceQuantity(tostring(text))
  return bytes == math.floor(bytes) and string.format("%d", bytes) or tostring(bytes)
end

local function needs_of(resource, pod)
  local request = {}
  if at(resource, "cpu") ~= nil then request.cpu = tostring(resource.cpu) end
  if at(resource, "memory") ~= nil then request.memory = memory_of(resource.memory) end
  local claim = type(pod) == "table" and at(kube.accuratePodRequirements(pod), "nodeClaim") or nil
  return { resourceRequest = request, nodeClaim = claim }
end

-- A standalone cluster says how many task managers it has; otherwise the parallelism of the job and the slots do.
local function task_managers(spec)
  if at(spec, "taskManager", "replicas") ~= nil then return integer(spec.taskManager.replicas) end
  local slots = integer(at(spec, "flinkConfiguration", "taskmanager.numberOfTaskSlots") or 1)
  local parallelism = integer(at(spec, "job", "parallelism") or at(spec, "flinkConfiguration", "parallelism.default") or 1)
  return math.ceil(parallelism / math.max(slots, 1))
end

local function groups(obj)
  local spec = obj.spec or {}
  return {
    {
      name = "jobmanager", replicas = integer(at(spec, "jobManager", "replicas") or 1),
      needs = needs_of(at(spec, "jobManager", "resource"), at(spec, "jobManager", "podTemplate") or spec.podTemplate),
    },
    {
      name = "taskmanager", replicas = task_managers(spec),
      needs = needs_of(at(spec, "taskManager", "resource"), at(spec, "taskManager", "podTemplate") or spec.podTemplate),
    },
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

-- Without the specs that the operator keeps in reconciliationStatus.
function ReflectStatus(observedObj)
  local status = reflect(observedObj, "clusterInfo", "jobManagerDeploymentStatus", "jobStatus", "lifecycleState", "error",
    "observedGeneration", "taskManager")
  local state = at(observedObj, "status", "reconciliationStatus", "state")
  if state ~= nil then status.reconciliationStatus = { state = state } end
  return status
end

-- Usually there is one cluster, and its status is shown whole.
function AggregateStatus(desiredObj, statusItems)
  local found = reported(statusItems)
  local status = {}
  if #found == 1 and #statusItems == 1 then
    for key, value in pairs(found[1]) do status[key] = value end
    status.generation, status.resourceTemplateGeneration = nil, nil
  else
    status.jobStatus = { state = worst(statusItems, JOB_STATES, "CREATED", "jobStatus", "state") }
    status.jobManagerDeploymentStatus = worst(statusItems, MANAGER_STATES, "DEPLOYING", "jobManagerDeploymentStatus")
    status.lifecycleState = worst(statusItems, LIFECYCLES, "CREATED", "lifecycleState")
    local managers = 0
    for _, one in ipairs(found) do managers = managers + integer(at(one, "taskManager", "replicas")) end
    status.taskManager = { replicas = managers }
    local errors = {}
    for _, item in each(statusItems) do
      local text = at(item, "status", "error")
      if text ~= nil and text ~= "" then errors[#errors + 1] = item.clusterName .. ": " .. text end
    end
    if #errors > 0 then status.error = table.concat(errors, "; ") end
  end
  status.observedGeneration = observed_generation(desiredObj, statusItems)
  return with_status(desiredObj, status)
end

function InterpretHealth(observedObj)
  local status = observedObj.status or {}
  if status.lifecycleState == "FAILED" then return false end
  if at(observedObj, "spec", "job") == nil then return status.jobManagerDeploymentStatus == "READY" end
  return is_one_of(at(status, "jobStatus", "state"), "RUNNING", "FINISHED")
end

function GetDependencies(desiredObj)
  local spec = desiredObj.spec or {}
  local found = references(at(desiredObj, "metadata", "namespace"))
  if spec.serviceAccount ~= "default" then found.add("v1", "ServiceAccount", spec.serviceAccount) end
  found.add_pod(spec.podTemplate)
  found.add_pod(at(spec, "jobManager", "podTemplate"))
  found.add_pod(at(spec, "taskManager", "podTemplate"))
  return found.list
end
