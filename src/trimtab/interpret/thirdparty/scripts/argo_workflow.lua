-- Argo Workflows. The kind has no status subresource: the status in the member must survive updates.

local PHASES = { "Error", "Failed", "Pending", "Running", "Succeeded" }

local function pods(workflow)
  local spec, containers = workflow.spec or {}, {}
  for _, template in each(spec.templates) do
    containers[#containers + 1] = template.container or template.script
    for _, container in each(at(template, "containerSet", "containers")) do containers[#containers + 1] = container end
    for _, container in each(template.initContainers) do containers[#containers + 1] = container end
    for _, container in each(template.sidecars) do containers[#containers + 1] = container end
  end
  return {
    spec = {
      containers = containers, volumes = spec.volumes, imagePullSecrets = spec.imagePullSecrets,
      serviceAccountName = spec.serviceAccountName, nodeSelector = spec.nodeSelector, tolerations = spec.tolerations,
      affinity = spec.affinity,
    },
  }
end

-- The largest of the steps, `parallelism` of which run at the same time.
function GetReplicas(desiredObj)
  local needs, template = {}, pods(desiredObj)
  for _, container in ipairs(template.spec.containers) do
    local one = { spec = { containers = { container }, nodeSelector = template.spec.nodeSelector, tolerations = template.spec.tolerations, affinity = template.spec.affinity } }
    needs[#needs + 1] = requirements_of(one)
  end
  if #needs == 0 then needs[1] = requirements_of(template) end
  return integer(at(desiredObj, "spec", "parallelism") or 1), largest(needs)
end

function ReviseReplica(desiredObj, desiredReplica)
  desiredObj.spec.parallelism = desiredReplica
  return desiredObj
end

function Retain(desiredObj, observedObj)
  desiredObj.status = observedObj.status
  if at(observedObj, "spec", "suspend") ~= nil then desiredObj.spec.suspend = observedObj.spec.suspend end
  return desiredObj
end

function ReflectStatus(observedObj)
  return reflect(observedObj, "phase", "progress", "message", "startedAt", "finishedAt", "estimatedDuration", "conditions")
end

function AggregateStatus(desiredObj, statusItems)
  local phase = worst(statusItems, PHASES, "Pending", "phase")
  local status = { phase = phase, startedAt = earliest(statusItems, "startedAt") }
  if is_one_of(phase, "Error", "Failed", "Succeeded") then status.finishedAt = latest(statusItems, "finishedAt") end
  local messages, done, total = {}, 0, 0
  for _, item in each(statusItems) do
    local message = at(item, "status", "message")
    if message ~= nil then messages[#messages + 1] = item.clusterName .. ": " .. message end
    local finished, all = string.match(at(item, "status", "progress") or "", "^(%d+)/(%d+)$")
    done, total = done + integer(finished), total + integer(all)
  end
  if #messages > 0 then status.message = table.concat(messages, "; ") end
  if total > 0 then status.progress = done .. "/" .. total end
  status.conditions = merged_conditions(statusItems, { SpecWarning = true, SpecError = true, MetricsError = true })
  return with_status(desiredObj, status)
end

function InterpretHealth(observedObj)
  local phase = at(observedObj, "status", "phase")
  return phase ~= nil and not is_one_of(phase, "", "Error", "Failed")
end

function GetDependencies(desiredObj)
  local found = references(at(desiredObj, "metadata", "namespace"))
  local spec = desiredObj.spec or {}
  found.add_pod(pods(desiredObj))
  for _, account in ipairs({ at(spec, "executor", "serviceAccountName") or "" }) do found.add("v1", "ServiceAccount", account) end
  for _, template in each(spec.templates) do
    if template.serviceAccountName ~= "default" then found.add("v1", "ServiceAccount", template.serviceAccountName) end
  end
  found.add("v1", "ConfigMap", at(spec, "artifactRepositoryRef", "configMap"))
  found.add("v1", "ConfigMap", at(spec, "synchronization", "semaphore", "configMapKeyRef", "name"))
  local reference = spec.workflowTemplateRef
  if at(reference, "clusterScope") == true then
    found.add_in(nil, "argoproj.io/v1alpha1", "ClusterWorkflowTemplate", reference.name)
  else
    found.add("argoproj.io/v1alpha1", "WorkflowTemplate", at(reference, "name"))
  end
  return found.list
end
