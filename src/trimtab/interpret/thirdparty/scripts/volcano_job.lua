-- Volcano Jobs: tasks that are scheduled together.

local FIELDS = { "pending", "running", "succeeded", "failed", "terminating", "unknown", "retryCount", "version" }
local PHASES = { "Failed", "Aborted", "Terminated", "Aborting", "Terminating", "Restarting", "Pending", "Running",
  "Completing", "Completed" }

local function groups(job, replicas_of)
  local found = {}
  for index, task in each(at(job, "spec", "tasks")) do
    found[#found + 1] = {
      name = task.name or ("task-" .. index - 1), replicas = integer(replicas_of(task)), template = task.template,
    }
  end
  return found
end

local function all_of(task) return task.replicas or 1 end

-- What must run together; Volcano starts the rest of a task later, or never.
local function gang_of(task) return task.minAvailable or all_of(task) end

function GetReplicas(desiredObj) return total_replicas(groups(desiredObj, all_of)) end

function GetComponents(desiredObj) return components_of(groups(desiredObj, gang_of)) end

function ReflectStatus(observedObj)
  return reflect(observedObj, "state", "minAvailable", "runningDuration", "conditions", "taskStatusCount", unpack(FIELDS))
end

function AggregateStatus(desiredObj, statusItems)
  local status = add_sums({}, statusItems, "minAvailable", unpack(FIELDS))
  local phase = worst(statusItems, PHASES, "Pending", "state", "phase")
  if phase ~= nil then
    status.state = { phase = phase, lastTransitionTime = latest(statusItems, "state", "lastTransitionTime") }
  end
  local tasks = {}
  for _, one in ipairs(reported(statusItems)) do
    for name, counts in pairs(one.taskStatusCount or {}) do
      tasks[name] = tasks[name] or { phase = {} }
      for state, number in pairs(counts.phase or {}) do
        tasks[name].phase[state] = (tasks[name].phase[state] or 0) + integer(number)
      end
    end
  end
  if next(tasks) ~= nil then status.taskStatusCount = tasks end
  return with_status(desiredObj, status)
end

function InterpretHealth(observedObj)
  return is_one_of(at(observedObj, "status", "state", "phase"), "Running", "Completing", "Completed")
end

function GetDependencies(desiredObj)
  local found = references(at(desiredObj, "metadata", "namespace"))
  for _, task in each(at(desiredObj, "spec", "tasks")) do found.add_pod(task.template) end
  for _, volume in each(at(desiredObj, "spec", "volumes")) do
    if volume.volumeClaim == nil then found.add("v1", "PersistentVolumeClaim", volume.volumeClaimName) end
  end
  return found.list
end
