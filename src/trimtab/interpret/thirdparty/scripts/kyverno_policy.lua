-- Kyverno policies: rules that the admission controller of each member enforces.

local RULES = { "validate", "generate", "mutate", "verifyimages" }

function ReflectStatus(observedObj)
  return reflect(observedObj, "ready", "conditions", "rulecount", "validatingadmissionpolicy")
end

-- All clusters have the same rules, so their number is not the sum.
function AggregateStatus(desiredObj, statusItems)
  local status, count, ready, has_ready = {}, {}, true, false
  for _, item in each(statusItems) do
    local one = has_reported(item) and item.status or {}
    has_ready = has_ready or one.ready ~= nil
    ready = ready and one.ready == true
    for _, rule in ipairs(RULES) do
      if at(one, "rulecount", rule) ~= nil then count[rule] = math.max(count[rule] or 0, integer(one.rulecount[rule])) end
    end
  end
  if has_ready then status.ready = ready end
  if next(count) ~= nil then status.rulecount = count end
  status.conditions = merged_conditions(statusItems, {})
  return with_status(desiredObj, status)
end

function InterpretHealth(observedObj)
  local ready = condition_of(observedObj.status, "Ready")
  if ready ~= nil then return ready.status == "True" end
  return at(observedObj, "status", "ready") == true
end

-- A name with a variable is known only at admission. `Policy` is namespaced, `ClusterPolicy` names the namespace.
local function add_context(found, context)
  for _, entry in each(context) do
    local map = entry.configMap
    if map ~= nil and not string.find(tostring(map.name), "{{", 1, true) and not string.find(tostring(map.namespace), "{{", 1, true) then
      found.add_in(map.namespace or "default", "v1", "ConfigMap", map.name)
    end
  end
end

function GetDependencies(desiredObj)
  local found = references(at(desiredObj, "metadata", "namespace"))
  for _, rule in each(at(desiredObj, "spec", "rules")) do
    add_context(found, rule.context)
    for _, each_rule in each(at(rule, "validate", "foreach")) do add_context(found, each_rule.context) end
    for _, each_rule in each(at(rule, "mutate", "foreach")) do add_context(found, each_rule.context) end
  end
  return found.list
end
