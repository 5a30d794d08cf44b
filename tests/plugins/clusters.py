"""Builders for clusters, requests and fleets in plugin tests."""

from datetime import datetime
from typing import Any

import msgspec

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import ResourceBinding
from trimtab.clock import EPOCH
from trimtab.decide.fleet import Fleet, Note
from trimtab.decide.framework import Reason, filters
from trimtab.decide.request import Ask, Gates, ask_of


def cluster(name: str = "m1", *, labels: dict[str, str] | None = None, status: Any = None, **spec: Any) -> Cluster:
    body = {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": status or {}}
    return msgspec.convert(body, Cluster, strict=False)


def binding(*, status: Any = None, **spec: Any) -> ResourceBinding:
    spec.setdefault("resource", {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "n", "name": "web"})
    body = {"metadata": {"namespace": "n", "name": "web-deployment"}, "spec": spec, "status": status or {}}
    return msgspec.convert(body, ResourceBinding, strict=False)


def ask(*, gates: Gates | None = None, others: tuple[ResourceBinding, ...] = (), **spec: Any) -> Ask:
    return ask_of(binding(**spec), gates=gates or Gates(), others=others)


def fleet(*clusters: Cluster, now: datetime = EPOCH, notes: dict[str, dict[str, Note]] | None = None) -> Fleet[Cluster]:
    return Fleet.of(clusters, now=now, notes=notes)


def verdict(plugin: str, of: Ask, about: Cluster, now: datetime = EPOCH) -> Reason | None:
    """The result of one filter for one cluster."""
    declared = filters[plugin]
    if declared.about is not None and about.name not in declared.about(of):
        return None
    reason: Reason | None = declared.study(of, fleet(about, now=now))(about)
    return reason


APIS = [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]
GROUPS = [{"affinityName": "own", "clusterNames": ["m1"]}, {"affinityName": "cloud", "clusterNames": ["m2"]}]


def member(name: str, pods: int = 10, cpu: int = 100, **spec: Any) -> Cluster:
    allocatable = {"pods": str(pods), "cpu": str(cpu)}
    return cluster(name, status={"apiEnablements": APIS, "resourceSummary": {"allocatable": allocatable}}, **spec)


def three(*pods: int) -> Fleet[Cluster]:
    return fleet(*(member(f"m{number}", room) for number, room in enumerate(pods, 1)))


PREFERENCE = {
    "mode": "Exact",
    "configurations": [
        {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "carbon", "scoreName": "green"}}, "weight": 1}
    ],
}


def scored(*scores: int | None, pods: int = 100) -> Fleet[Cluster]:
    sheets = {f"m{i}": Note({"green": score}) for i, score in enumerate(scores, 1) if score is not None}
    members = [member(f"m{i}", pods) for i in range(1, len(scores) + 1)]
    return fleet(*members, notes={"AddOnPlacementScore/carbon": sheets})
