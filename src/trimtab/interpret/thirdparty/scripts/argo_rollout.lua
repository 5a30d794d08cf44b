-- Argo Rollouts: a Deployment with canary and blue-green strategies. `observedGeneration` is a string there.

local PHASES = { "Degraded", "Paused", "Progressing", "Healthy" }

function GetReplicas(desiredObj)
  return integer(at(desiredObj, "spec", "replicas") or 1), requirements_of(at(desiredObj, "spec", "template"))
end

function ReviseReplica(desiredObj, desiredReplica)
  desiredObj.spec.replicas = desiredReplica
  return desiredObj
end

-- `kubectl argo rollouts restart` sets restartAt in the member.
function Retain(desiredObj, observedObj)
  if desiredObj.spec.restartAt == nil then desiredObj.spec.restartAt = at(observedObj, "spec", "restartAt") end
  return retain_replicas(desiredObj, observedObj)
end

function ReflectStatus(observedObj)
  return reflect(observedObj, "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "HPAReplicas", "phase",
    "message", "observedGeneration", "conditions")
end

function AggregateStatus(desiredObj, statusItems)
  local status = add_sums({}, statusItems, "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "HPAReplicas")
  status.observedGeneration = tostring(observed_generation(desiredObj, statusItems))
  status.phase = worst(statusItems, PHASES, "Progressing", "phase")
  status.conditions = merged_conditions(statusItems, { Paused = true, InvalidSpec = true })
  return with_status(desiredObj, status)
end

-- A canary that waits at a pause is healthy as long as enough pods serve.
function InterpretHealth(observedObj)
  local status = observedObj.status or {}
  if status.phase == "Degraded" or integer(status.observedGeneration) < integer(at(observedObj, "metadata", "generation")) then
    return false
  end
  return integer(status.availableReplicas) >= integer(at(observedObj, "spec", "replicas") or 1)
end

local function add_analysis(found, analysis)
  for _, template in each(at(analysis, "templates")) do
    if template.clusterScope == true then
      found.add_in(nil, "argoproj.io/v1alpha1", "ClusterAnalysisTemplate", template.templateName)
    else
      found.add("argoproj.io/v1alpha1", "AnalysisTemplate", template.templateName)
    end
  end
end

function GetDependencies(desiredObj)
  local found = references(at(desiredObj, "metadata", "namespace"))
  found.add_pod(at(desiredObj, "spec", "template"))
  local reference = at(desiredObj, "spec", "workloadRef")
  if reference ~= nil then found.add(reference.apiVersion, reference.kind, reference.name) end
  local canary = at(desiredObj, "spec", "strategy", "canary")
  local blue_green = at(desiredObj, "spec", "strategy", "blueGreen")
  for _, field in ipairs({ "stableService", "canaryService" }) do found.add("v1", "Service", at(canary, field)) end
  for _, field in ipairs({ "activeService", "previewService" }) do found.add("v1", "Service", at(blue_green, field)) end
  add_analysis(found, at(canary, "analysis"))
  for _, step in each(at(canary, "steps")) do add_analysis(found, step.analysis) end
  add_analysis(found, at(blue_green, "prePromotionAnalysis"))
  add_analysis(found, at(blue_green, "postPromotionAnalysis"))
  return found.list
end
