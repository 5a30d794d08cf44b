"""What kube-apiserver rejects in APIServices."""

from typing import Any

import pytest

from trimtab.api.kinds.native.rules.api_services import check_api_service

SPEC = {"group": "metrics.k8s.io", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100}
SERVICE = {"namespace": "kube-system", "name": "metrics"}


def fields(name: str = "v1.metrics.k8s.io", **changes: Any) -> list[str]:
    return [cause.field for cause in check_api_service({"metadata": {"name": name}, "spec": {**SPEC, **changes}}, None)]


def test_local_and_remote_ones_are_valid() -> None:
    assert fields() == []
    assert fields(service=SERVICE, caBundle="eA==") == []
    assert fields(service={**SERVICE, "port": 443}, insecureSkipTLSVerify=True) == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "v2.metrics.k8s.io"}, "metadata.name"),
        ({"groupPriorityMinimum": 0}, "spec.groupPriorityMinimum"),
        ({"groupPriorityMinimum": 20_001}, "spec.groupPriorityMinimum"),
        ({"versionPriority": 1_001}, "spec.versionPriority"),
        ({"caBundle": "eA=="}, "spec.caBundle"),
        ({"insecureSkipTLSVerify": True}, "spec.insecureSkipTLSVerify"),
        ({"service": {"name": "metrics"}}, "spec.service.namespace"),
        ({"service": {**SERVICE, "port": 65536}}, "spec.service.port"),
        ({"service": SERVICE, "insecureSkipTLSVerify": True, "caBundle": "eA=="}, "spec.insecureSkipTLSVerify"),
    ],
)
def test_each_fault_is_named(changes: dict[str, Any], field: str) -> None:
    assert fields(**changes) == [field]


def test_version_is_required() -> None:
    assert fields(".metrics.k8s.io", version="") == ["spec.version"]
