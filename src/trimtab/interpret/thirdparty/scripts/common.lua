-- Functions that the scripts for third-party kinds share; this text stands before each of them.
-- Names of clusters, keys and references are sorted, so that equal objects give equal results.

local kube = require("kube")
local TEMPLATE_GENERATION = "resourcetemplate.karmada.io/generation"
local RETAIN_REPLICAS = "resourcetemplate.karmada.io/retain-replicas"

local function integer(value) return math.floor(tonumber(value) or 0) end

-- The value at a path of keys; nil where a step is missing.
local function at(value, ...)
  for index = 1, select("#", ...) do
    if type(value) ~= "table" then return nil end
    value = value[(select(index, ...))]
  end
  return value
end

local function each(list) return ipairs(type(list) == "table" and list or {}) end

local function sorted_keys(map)
  local keys = {}
  for key in pairs(type(map) == "table" and map or {}) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

local function is_one_of(value, ...)
  for index = 1, select("#", ...) do
    if value == (select(index, ...)) then return true end
  end
  return false
end

local function equal(one, other)
  if type(one) ~= "table" or type(other) ~= "table" then return one == other end
  for key, value in pairs(one) do
    if not equal(value, other[key]) then return false end
  end
  for key in pairs(other) do
    if one[key] == nil then return false end
  end
  return true
end

local function later(one, other)
  if one == nil or (other ~= nil and other > one) then return other end
  return one
end

local function earlier(one, other)
  if one == nil or (other ~= nil and other < one) then return other end
  return one
end

-- Statuses

local function has_reported(item) return type(item.status) == "table" and next(item.status) ~= nil end

local function reported(items)
  local found = {}
  for _, item in each(items) do
    if has_reported(item) then found[#found + 1] = item.status end
  end
  return found
end

-- Some fields of the status in a member, and the generations by which AggregateStatus sees whether it is current.
local function reflect(observed, ...)
  local status = {}
  for index = 1, select("#", ...) do
    local field = select(index, ...)
    status[field] = at(observed, "status", field)
  end
  if next(status) == nil then return status end
  status.generation = at(observed, "metadata", "generation")
  status.resourceTemplateGeneration = tonumber(at(observed, "metadata", "annotations", TEMPLATE_GENERATION))
  return status
end

-- The generation that all clusters have observed: that of the template once they have applied and observed it.
local function observed_generation(desired, items)
  local generation = integer(at(desired, "metadata", "generation"))
  for _, item in each(items) do
    local status = item.status
    if not has_reported(item) or integer(status.observedGeneration) < integer(status.generation)
      or integer(status.resourceTemplateGeneration) < generation then
      return integer(at(desired, "status", "observedGeneration"))
    end
  end
  return generation
end

local function add_sums(status, items, ...)
  for index = 1, select("#", ...) do
    local field, total = select(index, ...), 0
    for _, one in ipairs(reported(items)) do total = total + integer(one[field]) end
    status[field] = total
  end
  return status
end

-- The value of the cluster that is worst off: the first of `order` that any cluster has at the path. Values that are not
-- in `order` come last, by name. A cluster that has not reported counts with the value `missing`.
local function worst(items, order, missing, ...)
  local seen, others = {}, {}
  for _, item in each(items) do
    local value = has_reported(item) and at(item.status, ...) or missing
    if value ~= nil then seen[value] = true end
  end
  for _, value in ipairs(order) do
    if seen[value] then return value end
  end
  for value in pairs(seen) do others[#others + 1] = value end
  table.sort(others)
  return others[1]
end

local function latest(items, ...)
  local found
  for _, status in ipairs(reported(items)) do found = later(found, at(status, ...)) end
  return found
end

local function earliest(items, ...)
  local found
  for _, status in ipairs(reported(items)) do found = earlier(found, at(status, ...)) end
  return found
end

local function condition_of(status, name)
  for _, condition in each(at(status, "conditions")) do
    if condition.type == name then return condition end
  end
end

local function is_true(status, name) return at(condition_of(status, name), "status") == "True" end

-- One condition per type with the worst status of all clusters and the messages of the clusters that have it. The types
-- in `bad` are bad when they are True, the others when they are not.
local function merged_conditions(items, bad)
  local types, merged = {}, {}
  for _, status in ipairs(reported(items)) do
    for _, condition in each(status.conditions) do types[condition.type] = true end
  end
  for _, name in ipairs(sorted_keys(types)) do
    local order = bad[name] and { "True", "Unknown", "False" } or { "False", "Unknown", "True" }
    local found, rank = nil, 4
    local messages, moment = {}, nil
    for _, item in each(items) do
      local condition = condition_of(item.status, name) or { status = bad[name] and "False" or "Unknown" }
      local this = condition.status == order[1] and 1 or (condition.status == order[2] and 2 or 3)
      moment = later(moment, condition.lastTransitionTime)
      if this < rank then found, rank, messages = condition, this, {} end
      if this == rank and condition.message ~= nil and condition.message ~= "" then
        messages[#messages + 1] = item.clusterName .. ": " .. condition.message
      end
    end
    merged[#merged + 1] = {
      type = name, status = found.status, reason = found.reason or "NotReported", message = table.concat(messages, "; "),
      lastTransitionTime = moment,
    }
  end
  return merged
end

-- The object with another status.
local function with_status(desired, status)
  desired.status = status
  return desired
end

-- Replicas

local function retain_replicas(desired, observed)
  if at(desired, "metadata", "labels", RETAIN_REPLICAS) == "true" and at(observed, "spec", "replicas") ~= nil then
    desired.spec.replicas = observed.spec.replicas
  end
  return desired
end

local function requirements_of(template)
  if type(template) ~= "table" then return nil end
  return kube.accuratePodRequirements(template)
end

local function larger(one, other)
  if one == nil then return other end
  if other == nil then return one end
  return kube.getResourceQuantity(other) > kube.getResourceQuantity(one) and other or one
end

-- What a pod of any of these sizes fits into: the largest amount of each resource, and the node claim if it is the same
-- for all. Capacity is counted in pods of one size, so a workload with several sizes is counted in the largest.
local function largest(list)
  local request, claim, same = {}, nil, true
  for index, one in ipairs(list) do
    for name, quantity in pairs(one.resourceRequest or {}) do request[name] = larger(request[name], quantity) end
    if index == 1 then claim = one.nodeClaim else same = same and equal(claim, one.nodeClaim) end
  end
  return { resourceRequest = request, nodeClaim = same and claim or nil }
end

-- A kind with several pod templates, as a list of {name, replicas, template}.
local function total_replicas(groups)
  local replicas, needs = 0, {}
  for _, group in ipairs(groups) do
    replicas = replicas + group.replicas
    needs[#needs + 1] = requirements_of(group.template)
  end
  return replicas, largest(needs)
end

local function components_of(groups)
  local found = {}
  for _, group in ipairs(groups) do
    found[#found + 1] = {
      name = group.name, replicas = group.replicas, replicaRequirements = requirements_of(group.template),
    }
  end
  return found
end

-- Amounts of memory as Java programs write them (512m, 2g, 1.5 gb), in the units of Kubernetes. Quantities pass unchanged.
local JAVA_UNITS = { b = 0, k = 1, kb = 1, m = 2, mb = 2, g = 3, gb = 3, t = 4, tb = 4 }
local function java_bytes(text)
  local number, unit = string.match(string.lower(tostring(text)), "^%s*([%d%.]+)%s*(%a*)%s*$")
  local power = number and JAVA_UNITS[unit == "" and "b" or unit]
  if power == nil or string.find(tostring(text), "i") then return kube.getResourceQuantity(tostring(text)) end
  return tonumber(number) * 1024 ^ power
end

local function mebibytes(bytes) return string.format("%dMi", math.ceil(bytes / 1048576)) end

-- References to other objects, each once.
local function references(namespace)
  local list, seen = {}, {}
  local function add_in(place, api_version, kind, name)
    if type(name) ~= "string" or name == "" then return end
    local key = table.concat({ api_version, kind, place or "", name }, "|")
    if not seen[key] then
      seen[key] = true
      list[#list + 1] = { apiVersion = api_version, kind = kind, namespace = place, name = name }
    end
  end
  local function add(api_version, kind, name) add_in(namespace, api_version, kind, name) end
  local function add_pod(template)
    if type(template) ~= "table" then return end
    for _, one in each(kube.getPodDependencies(template, namespace)) do
      add_in(one.namespace, one.apiVersion, one.kind, one.name)
    end
  end
  return { list = list, add = add, add_in = add_in, add_pod = add_pod }
end
