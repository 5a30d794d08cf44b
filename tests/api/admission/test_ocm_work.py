"""Validation of ManifestWorks and ManifestWorkReplicaSets."""

from typing import Any

import pytest

from api.admission.admission_helpers import errors_of
from trimtab.api.admission.ocm_work import manifest_work_requirements
from trimtab.api.admission.requirements import RequiredAccess
from trimtab.api.value import Raw
from trimtab.errors import BadRequest

WORKS = "manifestworks.work.open-cluster-management.io"
SETS = "manifestworkreplicasets.work.open-cluster-management.io"
EXECUTOR = {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "apps", "name": "deployer"}}}


def config_map(name: str = "a", namespace: str = "default", **fields: Any) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        **fields,
    }


def work(*manifests: Raw, **spec: Any) -> Raw:
    return {
        "metadata": {"name": "w", "namespace": "m1"},
        "spec": {"workload": {"manifests": list(manifests)}, **spec},
    }


def work_set(*manifests: Raw) -> Raw:
    template = {"workload": {"manifests": list(manifests)}}
    return {
        "metadata": {"name": "w", "namespace": "team"},
        "spec": {"manifestWorkTemplate": template, "placementRefs": [{"name": "p"}]},
    }


@pytest.mark.parametrize(
    ("manifests", "fault"),
    [
        ([config_map()], ""),
        ([config_map(), config_map("b"), config_map(namespace="other"), {**config_map(), "kind": "Secret"}], ""),
        ([config_map("")], "name must be set in manifest"),
        ([{**config_map(), "metadata": {"generateName": "a-", "name": "a"}}], "generateName must not be set"),
        (
            [config_map(), config_map("b"), config_map()],
            "duplicate manifest for resource default/a with resource type v1.ConfigMap",
        ),
        (
            [config_map("a", data={"x": "y" * 300 * 1024}), config_map("b", data={"x": "y" * 250 * 1024})],
            "bytes which exceeds the 512000 limit",
        ),
        ([], "should not be empty"),
    ],
)
def test_manifests_are_named_unique_and_small(manifests: list[Raw], fault: str) -> None:
    for kind, obj in ((WORKS, work(*manifests)), (SETS, work_set(*manifests))):
        found = errors_of(kind, obj)
        assert bool(found) == bool(fault)
        assert fault in "".join(found)


def test_manifests_of_the_largest_size_are_accepted() -> None:
    small = config_map(data={"x": ""})
    overhead = 512_000 - len(str(small).replace(" ", "")) - 4
    assert errors_of(WORKS, work(config_map(data={"x": "y" * overhead}))) == []
    assert errors_of(WORKS, work(config_map(data={"x": "y" * (overhead + 1)}))) != []


def test_executor_must_name_its_account() -> None:
    (fault,) = errors_of(WORKS, work(config_map(), executor={"subject": {"type": "ServiceAccount"}}))
    assert "executor service account can not be nil" in fault


def test_choosing_an_executor_needs_the_permission_to_act_as_it() -> None:
    (access,) = manifest_work_requirements(work(config_map(), executor=EXECUTOR), work(config_map()))
    assert isinstance(access, RequiredAccess)
    assert access[:6] == (
        "execute-as",
        "work.open-cluster-management.io",
        "manifestworks",
        "",
        "system:serviceaccount:apps:deployer",
        "m1",
    )
    refusal = access.refusal("eve")
    assert isinstance(refusal, BadRequest)
    assert refusal.message == (
        "user eve cannot manipulate the Manifestwork with executor apps/deployer in namespace m1"
    )


def test_work_with_an_unchanged_or_no_executor_needs_no_permission() -> None:
    chosen = work(config_map(), executor=EXECUTOR)
    assert manifest_work_requirements(chosen, chosen) == []
    assert manifest_work_requirements(work(config_map()), None) == []
    assert len(manifest_work_requirements(chosen, None)) == 1
