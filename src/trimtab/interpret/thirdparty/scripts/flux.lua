-- Flux sources, Kustomizations and HelmReleases. All report a condition Ready, and `flux suspend` sets spec.suspend in the member.

local BAD = { Stalled = true, Reconciling = true, FetchFailed = true, BuildFailed = true, StorageOperationFailed = true,
  ArtifactOutdated = true, TestFailed = false }
local SOURCES = { GitRepository = "v1", Bucket = "v1", OCIRepository = "v1", HelmRepository = "v1", HelmChart = "v1" }
local FIELDS = { "conditions", "observedGeneration", "artifact", "url", "lastAppliedRevision", "lastAttemptedRevision",
  "lastHandledReconcileAt", "lastReleaseRevision", "helmChart", "failures", "installFailures", "upgradeFailures",
  "observedChartName", "observedSourceArtifactRevision" }

function Retain(desiredObj, observedObj)
  if at(observedObj, "spec", "suspend") ~= nil and desiredObj.spec.suspend == nil then
    desiredObj.spec.suspend = observedObj.spec.suspend
  end
  return desiredObj
end

function ReflectStatus(observedObj) return reflect(observedObj, unpack(FIELDS)) end

-- A value that all clusters agree on; nil where they differ.
local function common(items, field)
  local found
  for index, status in ipairs(reported(items)) do
    if index > 1 and not equal(found, status[field]) then return nil end
    found = status[field]
  end
  return found
end

function AggregateStatus(desiredObj, statusItems)
  local status = {}
  for _, field in ipairs({ "url", "artifact", "lastAppliedRevision", "lastAttemptedRevision", "lastReleaseRevision", "helmChart",
    "observedChartName", "observedSourceArtifactRevision", "lastHandledReconcileAt" }) do
    status[field] = common(statusItems, field)
  end
  for _, one in ipairs(reported(statusItems)) do
    for _, field in ipairs({ "failures", "installFailures", "upgradeFailures" }) do
      if one[field] ~= nil then status[field] = (status[field] or 0) + integer(one[field]) end
    end
  end
  status.conditions = merged_conditions(statusItems, BAD)
  status.observedGeneration = observed_generation(desiredObj, statusItems)
  return with_status(desiredObj, status)
end

-- A HelmRepository of type oci and a suspended object report nothing.
function InterpretHealth(observedObj)
  if at(observedObj, "spec", "suspend") == true then return true end
  if observedObj.kind == "HelmRepository" and at(observedObj, "spec", "type") == "oci" then return true end
  local ready = condition_of(observedObj.status, "Ready")
  if at(ready, "status") ~= "True" then return false end
  local seen = ready.observedGeneration or at(observedObj, "status", "observedGeneration")
  return seen == nil or integer(seen) >= integer(at(observedObj, "metadata", "generation"))
end

local function add_source(found, reference)
  if at(reference, "name") == nil then return end
  local version = reference.apiVersion or ("source.toolkit.fluxcd.io/" .. (SOURCES[reference.kind] or "v1"))
  if reference.namespace ~= nil then
    found.add_in(reference.namespace, version, reference.kind, reference.name)
  else
    found.add(version, reference.kind, reference.name)
  end
end

function GetDependencies(desiredObj)
  local spec, found = desiredObj.spec or {}, references(at(desiredObj, "metadata", "namespace"))
  for _, field in ipairs({ "secretRef", "certSecretRef", "proxySecretRef" }) do found.add("v1", "Secret", at(spec, field, "name")) end
  for _, holder in ipairs({ "verify", "decryption", "kubeConfig" }) do
    found.add("v1", "Secret", at(spec, holder, "secretRef", "name"))
  end
  found.add("v1", "ConfigMap", at(spec, "kubeConfig", "configMapRef", "name"))
  for _, list in ipairs({ spec.valuesFrom or {}, at(spec, "postBuild", "substituteFrom") or {} }) do
    for _, reference in each(list) do found.add("v1", reference.kind, reference.name) end
  end
  if spec.serviceAccountName ~= "default" then found.add("v1", "ServiceAccount", spec.serviceAccountName) end
  add_source(found, spec.sourceRef)
  add_source(found, spec.chartRef)
  add_source(found, at(spec, "chart", "spec", "sourceRef"))
  return found.list
end
