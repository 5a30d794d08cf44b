-- Argo CD Applications. The kind has no status subresource, and a sync writes `operation`: both belong to the member.

local HEALTH = { "Degraded", "Missing", "Unknown", "Progressing", "Suspended", "Healthy" }
local SYNC = { "Unknown", "OutOfSync", "Synced" }
local PHASES = { "Error", "Failed", "Terminating", "Running", "Succeeded" }

function Retain(desiredObj, observedObj)
  desiredObj.status, desiredObj.operation = observedObj.status, observedObj.operation
  return desiredObj
end

function ReflectStatus(observedObj)
  local status = reflect(observedObj, "health", "sync", "reconciledAt", "conditions", "summary")
  if status.sync ~= nil then status.sync = { status = status.sync.status, revision = status.sync.revision } end
  local operation = at(observedObj, "status", "operationState")
  if operation ~= nil then
    status.operationState = {
      phase = operation.phase, message = operation.message, startedAt = operation.startedAt, finishedAt = operation.finishedAt,
    }
  end
  return status
end

function AggregateStatus(desiredObj, statusItems)
  local status = {
    health = { status = worst(statusItems, HEALTH, "Unknown", "health", "status") },
    sync = { status = worst(statusItems, SYNC, "Unknown", "sync", "status") },
    reconciledAt = earliest(statusItems, "reconciledAt"),
  }
  local revision
  for index, one in ipairs(reported(statusItems)) do
    local this = at(one, "sync", "revision")
    if index == 1 then revision = this elseif revision ~= this then revision = nil end
  end
  status.sync.revision = revision
  local phase = worst(statusItems, PHASES, nil, "operationState", "phase")
  if phase ~= nil then status.operationState = { phase = phase } end
  local images, seen = {}, {}
  for _, one in ipairs(reported(statusItems)) do
    for _, image in each(at(one, "summary", "images")) do
      if not seen[image] then
        seen[image] = true
        images[#images + 1] = image
      end
    end
  end
  if #images > 0 then
    table.sort(images)
    status.summary = { images = images }
  end
  return with_status(desiredObj, status)
end

function InterpretHealth(observedObj)
  return is_one_of(at(observedObj, "status", "health", "status"), "Healthy", "Suspended")
end

function GetDependencies(desiredObj)
  local found = references(at(desiredObj, "metadata", "namespace"))
  local project = at(desiredObj, "spec", "project")
  if project ~= "default" then found.add("argoproj.io/v1alpha1", "AppProject", project) end
  return found.list
end
