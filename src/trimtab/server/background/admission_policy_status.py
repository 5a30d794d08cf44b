"""Reports which generation of a ValidatingAdmissionPolicy is in force, and expressions that do not compile."""

import asyncio

import orjson

from trimtab.api.value import Raw
from trimtab.errors import ApiError
from trimtab.server.admission.policy_expressions import PolicyError, PolicyExpressions
from trimtab.server.admission.webhooks import GROUP
from trimtab.server.auth.user import Caller
from trimtab.server.registry.object_schema import DesiredObject
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request.options import WriteOptions
from trimtab.server.resources import ObjectPath
from trimtab.store.keys import resource_prefix

_PREFIX = resource_prefix(GROUP, "validatingadmissionpolicies")
_CALLER = Caller(user_agent="validatingadmissionpolicy-status")
_RETRY_SECONDS = 1.0


class AdmissionPolicyStatus:
    """Writes the status of policies after each change of their spec."""

    def __init__(self, resource_store: ResourceStore) -> None:
        self._resource_store = resource_store
        self._expressions = PolicyExpressions()

    async def run(self) -> None:
        store = self._resource_store.store
        watch = store.watch(_PREFIX)
        for entry in store.list(_PREFIX).entries:
            await self._report(orjson.loads(entry.value))
        async for _ in watch:
            for entry in store.list(_PREFIX).entries:
                await self._report(orjson.loads(entry.value))

    async def _report(self, policy: Raw) -> None:
        generation = policy["metadata"].get("generation")
        if (policy.get("status") or {}).get("observedGeneration") == generation:
            return
        served = self._resource_store.catalogue.find(GROUP, "v1", "validatingadmissionpolicies")
        if served is None:
            return
        warnings = self._warnings(policy["spec"]) if self._expressions.is_available else []

        def change(obj: Raw) -> DesiredObject:
            checked = {"expressionWarnings": warnings} if warnings else {}
            status = {**(obj.get("status") or {}), "observedGeneration": generation, "typeChecking": checked}
            return DesiredObject({**obj, "status": status})

        where = ObjectPath(served, "", policy["metadata"]["name"], "status")
        options = WriteOptions(field_manager=_CALLER.user_agent)
        try:
            await self._resource_store.change(where, change, options, _CALLER)
        except ApiError:  # the policy changed or is gone; its next event starts another attempt
            await asyncio.sleep(_RETRY_SECONDS)

    def _warnings(self, spec: Raw) -> list[Raw]:
        found = []
        for number, validation in enumerate(spec.get("validations") or ()):
            for field in ("expression", "messageExpression"):
                if not validation.get(field):
                    continue
                try:
                    self._expressions.compile(validation[field])
                except PolicyError as error:
                    found.append({"fieldRef": f"spec.validations[{number}].{field}", "warning": str(error)})
        return found
