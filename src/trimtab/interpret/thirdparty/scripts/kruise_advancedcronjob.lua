-- Kruise AdvancedCronJobs: Jobs, BroadcastJobs or image pulls on a schedule.

-- `kubectl patch` of spec.paused in the member is how one schedule is stopped there.
function Retain(desiredObj, observedObj)
  if desiredObj.spec.paused == nil then desiredObj.spec.paused = at(observedObj, "spec", "paused") end
  return desiredObj
end

function ReflectStatus(observedObj) return reflect(observedObj, "active", "lastScheduleTime", "type") end

function AggregateStatus(desiredObj, statusItems)
  local active, status = {}, { lastScheduleTime = latest(statusItems, "lastScheduleTime") }
  for _, one in ipairs(reported(statusItems)) do
    status.type = status.type or one.type
    for _, job in each(one.active) do active[#active + 1] = job end
  end
  if #active > 0 then status.active = active end
  return with_status(desiredObj, status)
end

function InterpretHealth(observedObj) return true end

function GetDependencies(desiredObj)
  local found = references(at(desiredObj, "metadata", "namespace"))
  found.add_pod(at(desiredObj, "spec", "template", "jobTemplate", "spec", "template"))
  found.add_pod(at(desiredObj, "spec", "template", "broadcastJobTemplate", "spec", "template"))
  for _, secret in each(at(desiredObj, "spec", "template", "imageListPullJobTemplate", "spec", "pullSecrets")) do
    found.add("v1", "Secret", secret)
  end
  return found.list
end
