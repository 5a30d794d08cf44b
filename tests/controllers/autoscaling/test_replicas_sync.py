"""Templates follow the replicas that autoscalers in members have chosen."""

from typing import Any, cast

from builders import binding, deployment, placement, status_item
from views import FakeView

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.apps import Deployment
from trimtab.api.kinds.work import ResourceBinding
from trimtab.controllers.autoscaling.replicas_sync import deployment_of_binding, marked_changed, replicas_sync
from trimtab.controllers.contract import Ensure
from trimtab.interpret.native.retain import RETAIN_REPLICAS

DIVIDED = placement(replicaScheduling={"replicaSchedulingType": "Divided"})


def template(replicas: int, collected: int, *, marked: bool = True) -> dict[str, Any]:
    labels = {RETAIN_REPLICAS: "true"} if marked else {}
    return {**deployment("web", replicas, labels=labels), "status": {"replicas": collected}}


def bound(wanted: int, *counts: int, **fields: Any) -> ResourceBinding:
    items = tuple(status_item(f"m{n}", status={"replicas": count}) for n, count in enumerate(counts))
    clusters = {f"m{n}": 1 for n in range(len(counts))}
    return binding("web", clusters=clusters, replicas=wanted, status_aggregated_status=items, **fields)


def synced(raw: dict[str, Any], *objects: ResourceBinding) -> list[int]:
    subject = cast("Deployment", kind_of(Deployment).decode(raw))
    effects = replicas_sync(subject, FakeView([subject, *objects], raws=[raw]))
    return [one.wanted["spec"]["replicas"] for one in effects if isinstance(one, Ensure)]


def test_a_divided_template_follows_the_collected_status() -> None:
    assert synced(template(4, 6), bound(4, 3, 3, placement=DIVIDED)) == [6]


def test_a_duplicated_or_unmarked_template_is_left_alone() -> None:
    assert synced(template(4, 6), bound(4, 3, 3, placement=placement())) == []
    assert synced(template(4, 6, marked=False), bound(4, 3, 3, placement=DIVIDED)) == []
    assert synced(template(4, 6)) == []


def test_a_status_that_is_not_complete_yet_is_not_followed() -> None:
    assert synced(template(5, 6), bound(4, 3, 3, placement=DIVIDED)) == []
    assert synced(template(4, 3), bound(4, 3, 0, placement=DIVIDED)) == []
    assert synced(template(4, 5), bound(4, 3, 3, placement=DIVIDED)) == []


def test_a_collected_status_reconciles_the_marked_template() -> None:
    subject = cast("Deployment", kind_of(Deployment).decode(template(4, 6)))
    view = FakeView([subject])
    (key,) = deployment_of_binding(None, bound(4, 3), view)
    assert key.name == "web"
    assert list(deployment_of_binding(bound(4, 3), bound(4, 3), view)) == []
    assert marked_changed(None, subject)
