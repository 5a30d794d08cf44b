"""Reports which generation of a ValidatingAdmissionPolicy is in force, and expressions that do not fit their kinds."""

import asyncio
from itertools import islice, product

import orjson

from trimtab.api.kinds.native.openapi import schema_name
from trimtab.api.value import Raw
from trimtab.errors import ApiError
from trimtab.interpret.cel.type_check import CelType, check_types, type_of_schema
from trimtab.server.admission.dynamic.policy_expressions import PolicyError, PolicyExpressions
from trimtab.server.admission.dynamic.webhooks import GROUP
from trimtab.server.auth.user import Caller
from trimtab.server.registry.object_schema import DesiredObject
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request import large_objects
from trimtab.server.request.options import WriteOptions
from trimtab.server.resources import ObjectPath, ServedResource
from trimtab.store.keys import resource_prefix

_PREFIX = resource_prefix(GROUP, "validatingadmissionpolicies")
_CALLER = Caller(user_agent="validatingadmissionpolicy-status")
_RETRY_SECONDS = 1.0
_MAX_CHECKED_IN_LOOP = 4
"""Validations of a policy that are checked in the event loop; each is compiled, and checked against each kind."""
_MAX_CHECKED_KINDS = 10
"""As in Kubernetes: the kinds against which the expressions of one policy are checked."""


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
        is_slow = len(policy["spec"].get("validations") or ()) > _MAX_CHECKED_IN_LOOP
        available = self._expressions.is_available
        warnings = await large_objects.run(is_slow, self._warnings, policy["spec"]) if available else []

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
        resources = self._matched_resources(spec)
        for number, validation in enumerate(spec.get("validations") or ()):
            for field in ("expression", "messageExpression"):
                expression = validation.get(field)
                if expression and (warning := self._warning(expression, resources)):
                    found.append({"fieldRef": f"spec.validations[{number}].{field}", "warning": warning})
        return found

    def _warning(self, expression: str, resources: list[ServedResource]) -> str:
        """Why an expression does not compile, or does not fit the schema of a kind that the policy matches."""
        try:
            self._expressions.compile(expression)
        except PolicyError as error:
            return str(error)
        faults = []
        for served in resources:
            type_ = _object_type(served)
            if fault := check_types(expression, {"object": type_, "oldObject": type_}):
                faults.append(f"{served.group}/{served.version}, Kind={served.kind.name}: {fault}")
        return "\n".join(faults)

    def _matched_resources(self, spec: Raw) -> list[ServedResource]:
        """The resources that the policy names; patterns are not followed."""
        rules = (spec.get("matchConstraints") or {}).get("resourceRules") or ()
        named = (
            (group, version, resource)
            for rule in rules
            for group, version, resource in product(
                rule.get("apiGroups") or (), rule.get("apiVersions") or (), rule.get("resources") or ()
            )
        )
        found = (self._resource_store.catalogue.find(*one) for one in islice(named, _MAX_CHECKED_KINDS))
        return [served for served in found if served is not None]


def _object_type(served: ServedResource) -> CelType:
    if served.message:
        return type_of_schema({"$ref": schema_name(served.api_version, served.kind.name)})
    metadata = {"metadata": {"$ref": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}
    text = {"type": "string"}
    properties = {**(served.schema.get("properties") or {}), **metadata, "apiVersion": text, "kind": text}
    return type_of_schema({**served.schema, "properties": properties})
