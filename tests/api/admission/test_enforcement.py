"""The table of enforcement is complete, and schemas with policies decide as the checks do."""

import asyncio

import pytest

from api.admission.enforcement_cases import Case, all_cases
from trimtab.api import kinds as declarations
from trimtab.api.admission.enforcement import ENFORCEMENT
from trimtab.api.admission.policies import ADMISSION_POLICIES, policy_objects
from trimtab.api.kind import Kind, find_kind, kinds
from trimtab.api.schema.from_types import crd
from trimtab.api.schema.structural import StructuralSchema
from trimtab.api.value import Raw
from trimtab.cli.commands.crds import custom_kinds
from trimtab.client.client import Resource, resource_of
from trimtab.errors import ApiError
from trimtab.registry import discover
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.server.registry.cel_rules import CelRuleEvaluator
from trimtab.store.store import Store

discover(declarations)
CEL = CelRuleEvaluator()
POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False
)
BINDINGS = POLICIES._replace(plural="validatingadmissionpolicybindings", kind="ValidatingAdmissionPolicyBinding")


def kind_of_case(case: Case) -> Kind:
    kind = find_kind(case.obj["apiVersion"], case.obj["kind"])
    assert kind is not None
    return kind


class Servers:
    """A server with the checks, and one that has only the admission policies."""

    async def start(self) -> None:
        self._schemas: dict[str, StructuralSchema] = {}
        self._checking = ApiServer(Store(), ApiServerSettings(plugins=[PeerWebhooks()]))
        self._bare = ApiServer(Store(), ApiServerSettings())
        for server in (self._checking, self._bare):
            await server.start()
        for obj in policy_objects(custom_kinds()):
            resource = POLICIES if obj["kind"] == POLICIES.kind else BINDINGS
            await LocalClient(self._bare).create(resource, obj)

    async def stop(self) -> None:
        await self._checking.stop()
        await self._bare.stop()

    async def refusal_by_checks(self, case: Case) -> str:
        return await self._refusal(LocalClient(self._checking), case)

    async def refusal_by_schema_and_policies(self, case: Case) -> str:
        return self._refusal_by_schema(case) or await self._refusal(LocalClient(self._bare), case)

    async def _refusal(self, client: LocalClient, case: Case) -> str:
        resource = resource_of(kind_of_case(case))
        try:
            if case.old is None:
                await client.create(resource, case.obj, dry_run=True)
                return ""
            stored = await client.create(resource, case.old)
            metadata = {**case.obj["metadata"], "resourceVersion": stored["metadata"]["resourceVersion"]}
            labels = stored["metadata"].get("labels") or {}
            wanted = case.obj["metadata"].get("labels")
            if wanted is not None and wanted == case.old["metadata"].get("labels"):
                metadata["labels"] = labels  # the server with the checks replaced the permanent id
            try:
                await client.replace(resource, {**case.obj, "metadata": metadata})
            finally:
                await self._remove(client, resource, case.obj)
        except ApiError as fault:
            return fault.message
        return ""

    async def _remove(self, client: LocalClient, resource: Resource, obj: Raw) -> None:
        place = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        await client.patch(resource, *place, {"metadata": {"finalizers": None}})
        await client.delete(resource, *place)

    def _refusal_by_schema(self, case: Case) -> str:
        kind = kind_of_case(case)
        schema = self._schemas.get(kind.id)
        if schema is None:
            version = next(one for one in crd(kind)["spec"]["versions"] if one["storage"])
            schema = self._schemas[kind.id] = StructuralSchema(version["schema"]["openAPIV3Schema"])
        filled, old = (
            schema.apply_defaults(schema.prune(one)[0]) if one is not None else None for one in (case.obj, case.old)
        )
        assert filled is not None
        return "; ".join(f"{cause.field}: {cause.message}" for cause in schema.check(filled, old, CEL))


def test_schemas_and_policies_refuse_what_the_checks_refuse_and_nothing_else() -> None:
    cases = list(all_cases())

    async def run() -> list[str]:
        servers = Servers()
        await servers.start()
        different, refused = [], 0
        for case in cases:
            by_checks = await servers.refusal_by_checks(case)
            by_rules = await servers.refusal_by_schema_and_policies(case)
            refused += bool(by_checks)
            if bool(by_checks) != bool(by_rules):
                different.append(f"{case.name}\n    checks: {by_checks}\n    rules:  {by_rules}")
        await servers.stop()
        assert refused > 80
        assert len(cases) - refused > 80
        return different

    different = asyncio.run(run())
    assert not different, "\n".join(different)


def test_every_kind_with_checks_is_in_the_table() -> None:
    with_checks = {kind.id for kind in custom_kinds() if kind.validators or kind.admission_validators}
    assert with_checks == set(ENFORCEMENT)


@pytest.mark.parametrize("policy", ADMISSION_POLICIES, ids=lambda policy: policy.name)
def test_policies_are_for_kinds_that_exist(policy) -> None:
    assert all(name in kinds for name in policy.kinds)
    assert policy.kinds or policy.labels
