-- Argo CD AppProjects: configuration. The status in the member lists the tokens that were issued there.

function Retain(desiredObj, observedObj)
  desiredObj.status = observedObj.status
  return desiredObj
end

-- Tokens stay in their cluster.
function ReflectStatus(observedObj) return {} end

function InterpretHealth(observedObj) return true end
