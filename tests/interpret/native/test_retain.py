from typing import Any

import pytest

from interpret.native.native_helpers import TRIMTAB, make_object


def test_pod_keeps_fields_set_by_its_cluster() -> None:
    mounts, volumes = [{"name": "token", "mountPath": "/t"}], [{"name": "token"}]
    desired = make_object("Pod", spec={"containers": [{"name": "c"}, {"name": "new"}], "volumes": [{"name": "old"}]})
    observed = make_object(
        "Pod", spec={"nodeName": "n", "containers": [{"name": "c", "volumeMounts": mounts}], "volumes": volumes}
    )
    assert TRIMTAB.retain(desired, observed)["spec"] == {
        "nodeName": "n",
        "volumes": volumes,
        "containers": [{"name": "c", "volumeMounts": mounts}, {"name": "new"}],
    }


@pytest.mark.parametrize(
    ("kind", "api_version", "spec"),
    [
        ("PersistentVolumeClaim", "v1", {"volumeName": "pv1"}),
        ("PersistentVolume", "v1", {"claimRef": {"name": "c"}}),
        ("Job", "batch/v1", {"selector": {"matchLabels": {"a": "b"}}}),
        ("Job", "batch/v1", {"template": {"metadata": {"labels": {"a": "b"}}}}),
    ],
)
def test_fields_allocated_by_a_cluster_are_retained(kind: str, api_version: str, spec: dict[str, Any]) -> None:
    assert (
        TRIMTAB.retain(make_object(kind, api_version, spec={}), make_object(kind, api_version, spec=spec))["spec"]
        == spec
    )


def test_token_secret_keeps_its_data() -> None:
    desired = make_object("Secret", type="kubernetes.io/service-account-token")
    assert TRIMTAB.retain(desired, make_object("Secret", data={"token": "t"}))["data"] == {"token": "t"}


def test_opaque_secret_does_not_keep_the_observed_data() -> None:
    assert "data" not in TRIMTAB.retain(
        make_object("Secret", type="Opaque"), make_object("Secret", data={"token": "t"})
    )


@pytest.mark.parametrize(("label", "replicas"), [("true", 5), ("false", 1)])
def test_replicas_are_retained_only_with_the_label(label: str, replicas: int) -> None:
    desired = make_object("Deployment", "apps/v1", spec={"replicas": 1})
    desired["metadata"]["labels"] = {"resourcetemplate.karmada.io/retain-replicas": label}
    observed = make_object("Deployment", "apps/v1", spec={"replicas": 5})
    assert TRIMTAB.retain(desired, observed)["spec"]["replicas"] == replicas


def test_service_keeps_its_cluster_ip_and_health_check_port() -> None:
    observed = make_object("Service", spec={"clusterIP": "10.0.0.1", "healthCheckNodePort": 31000})
    assert TRIMTAB.retain(make_object("Service", spec={}), observed)["spec"] == observed["spec"]


def test_service_account_keeps_secrets_added_by_its_cluster() -> None:
    desired = make_object("ServiceAccount", secrets=[{"name": "own"}])
    observed = make_object("ServiceAccount", secrets=[{"name": "token"}, {"name": "own"}])
    assert TRIMTAB.retain(desired, observed)["secrets"] == [{"name": "own"}, {"name": "token"}]
