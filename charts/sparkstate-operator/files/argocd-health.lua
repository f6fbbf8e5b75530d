local function found(kind)
  if obj.status ~= nil and obj.status.conditions ~= nil then
    for _, condition in ipairs(obj.status.conditions) do
      if condition.type == kind and condition.status == "True" then return condition end
    end
  end
  return nil
end
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "not yet seen by the operator"}
end
local stalled = found("Stalled")
if stalled ~= nil then return {status = "Degraded", message = stalled.reason .. ": " .. stalled.message} end
if obj.status.phase == "Suspended" then return {status = "Suspended", message = "suspended, with its state"} end
local degraded = found("Degraded")
if degraded ~= nil then return {status = "Degraded", message = degraded.reason .. ": " .. degraded.message} end
if found("Ready") ~= nil then return {status = "Healthy", message = obj.status.phase} end
return {status = "Progressing", message = obj.status.phase or ""}
