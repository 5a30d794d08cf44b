"""Defaults and validations of upstream webhooks."""

import asyncio

import pytest

from trimtab.api.kind import Kind, kind_of
from trimtab.api.kinds.policy import PropagationPolicy
from trimtab.api.kinds.taint_policy import ClusterTaintPolicy
from trimtab.api.value import Object
from trimtab.errors import Forbidden
from trimtab.server.admission.chain import Attributes
from trimtab.server.admission.peer_webhooks import PROTECTED_LABEL, PeerWebhooks
from trimtab.server.auth.user import Caller
from trimtab.server.resources import ObjectPath, ServedResource


def attributes(kind: Kind, operation: str) -> Attributes:
    return Attributes(operation, ObjectPath(ServedResource(kind, kind.version, schema=dict), "default", "p"), Caller())


def test_new_policy_gets_a_permanent_id_and_a_finalizer() -> None:
    policy = {"metadata": {"name": "p", "namespace": "default", "finalizers": ["a.io/b"]}, "spec": {}}
    plugin = PeerWebhooks(lambda: "id-1")
    admitted = asyncio.run(plugin.mutate(attributes(kind_of(PropagationPolicy), "CREATE"), policy, None))
    assert admitted["metadata"]["labels"] == {"propagationpolicy.karmada.io/permanent-id": "id-1"}
    assert admitted["metadata"]["finalizers"] == ["a.io/b", "karmada.io/propagation-policy-controller"]
    updated = asyncio.run(plugin.mutate(attributes(kind_of(PropagationPolicy), "UPDATE"), policy, policy))
    assert "labels" not in updated["metadata"]


def test_protected_object_cannot_be_deleted() -> None:
    kind = Kind(Object, group="", version="v1", name="ConfigMap", plural="configmaps", custom=False)
    plugin = PeerWebhooks()
    free = {"metadata": {"name": "p", "labels": {PROTECTED_LABEL: "Never"}}}
    asyncio.run(plugin.validate(attributes(kind, "DELETE"), None, free))
    with pytest.raises(Forbidden, match="This resource is protected"):
        protected = {"metadata": {"name": "p", "labels": {PROTECTED_LABEL: "Always"}}}
        asyncio.run(plugin.validate(attributes(kind, "DELETE"), None, protected))


def test_invalid_policy_is_denied_in_the_words_of_the_webhook_unless_it_is_being_deleted() -> None:
    plugin, kind = PeerWebhooks(), kind_of(PropagationPolicy)
    spread = [{"spreadByField": "cluster", "minGroups": 3, "maxGroups": 1}]
    metadata = {"name": "p", "namespace": "default"}
    policy = {"metadata": metadata, "spec": {"placement": {"spreadConstraints": spread}}}
    with pytest.raises(Forbidden, match=r'admission webhook "propagationpolicy\.karmada\.io" denied the request: '):
        asyncio.run(plugin.validate(attributes(kind, "CREATE"), policy, None))
    deleted = {**policy, "metadata": {**metadata, "deletionTimestamp": "2030-01-01T00:00:00Z"}}
    asyncio.run(plugin.validate(attributes(kind, "UPDATE"), deleted, policy))


def test_taint_policies_that_evict_are_admitted_only_when_allowed() -> None:
    policy = {"metadata": {"name": "p"}, "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}
    where = attributes(kind_of(ClusterTaintPolicy), "CREATE")
    with pytest.raises(Forbidden, match="NoExecute"):
        asyncio.run(PeerWebhooks().validate(where, policy, None))
    asyncio.run(PeerWebhooks(allow_no_execute_taints=True).validate(where, policy, None))
