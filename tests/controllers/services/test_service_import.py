"""The derived Service of a ServiceImport has its ports and addresses."""

from typing import Any

import msgspec
from views import FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.networking import ServiceImport
from trimtab.api.value import Raw
from trimtab.controllers.contract import Delete, Ensure
from trimtab.controllers.services.service_import import delete_derived, service_import


def imported(port: int = 80, type_: str = "ClusterSetIP", **spec: Any) -> ServiceImport:
    body = {"type": type_, "ports": [{"name": "http", "protocol": "TCP", "port": port}], **spec}
    return msgspec.convert({"metadata": {"namespace": "shop", "name": "web"}, "spec": body}, ServiceImport)


def reconcile(subject: ServiceImport, *present: Raw) -> list[Any]:
    return [one for one in service_import(subject, FakeView([subject], raws=present)) if isinstance(one, Ensure)]


def test_derived_service_has_the_ports_of_the_import() -> None:
    (effect,) = reconcile(imported())
    assert effect.wanted["metadata"] == {"namespace": "shop", "name": "derived-web"}
    assert effect.wanted["spec"]["ports"] == [{"name": "http", "protocol": "TCP", "port": 80}]
    assert reconcile(imported(type_="Headless")) == []


def test_existing_service_keeps_what_the_server_added() -> None:
    (created,) = (one.wanted for one in reconcile(imported()))
    port = {**created["spec"]["ports"][0], "targetPort": 80}
    stored = {**created, "spec": {**created["spec"], "clusterIP": "10.0.0.9", "ports": [port]}}
    assert reconcile(imported(), stored) == []
    (changed,) = reconcile(imported(port=81), stored)
    assert (changed.wanted["spec"]["clusterIP"], changed.wanted["spec"]["ports"][0]["port"]) == ("10.0.0.9", 81)
    (status,) = reconcile(imported(ips=["10.1.1.1"]), stored)
    assert (status.subresource, status.wanted["status"]["loadBalancer"]) == (
        "status",
        {"ingress": [{"ip": "10.1.1.1"}]},
    )


def test_derived_service_goes_with_the_import() -> None:
    (created,) = (one.wanted for one in reconcile(imported()))
    (gone,) = delete_derived(key_of(imported()), FakeView([], raws=(created,)))
    assert isinstance(gone, Delete)
    assert list(delete_derived(key_of(imported()), FakeView())) == []
