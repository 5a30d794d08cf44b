"""Builders for clusters, requests and fleets in plugin tests."""

from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import ResourceBinding
from trimtab.clock import EPOCH
from trimtab.decide.fleet import ExternalValue, Fleet
from trimtab.decide.framework import Reason, ScorePlugin, filters, scores_of
from trimtab.decide.request import FeatureGates, PlacementRequest, placement_request_of


def cluster(name: str = "m1", *, labels: dict[str, str] | None = None, status: Any = None, **spec: Any) -> Cluster:
    body = {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": status or {}}
    return msgspec.convert(body, Cluster, strict=False)


def binding(*, status: Any = None, **spec: Any) -> ResourceBinding:
    spec.setdefault("resource", {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "n", "name": "web"})
    body = {"metadata": {"namespace": "n", "name": "web-deployment"}, "spec": spec, "status": status or {}}
    return msgspec.convert(body, ResourceBinding, strict=False)


def placement_request(
    *, feature_gates: FeatureGates | None = None, others: tuple[ResourceBinding, ...] = (), **spec: Any
) -> PlacementRequest:
    return placement_request_of(binding(**spec), feature_gates=feature_gates or FeatureGates(), others=others)


def fleet(
    *clusters: Cluster, now: datetime = EPOCH, external_values: dict[str, dict[str, ExternalValue]] | None = None
) -> Fleet[Cluster]:
    return Fleet.of(clusters, now=now, external_values=external_values)


def check_filter(plugin: str, of: PlacementRequest, about: Cluster, now: datetime = EPOCH) -> Reason | None:
    """The result of one filter for one cluster."""
    declared = filters[plugin]
    if declared.targets is not None and about.name not in declared.targets(of):
        return None
    reason: Reason | None = declared.prepare(of, fleet(about, now=now))(about)
    return reason


def final_scores(plugin: ScorePlugin[Any, Any], request: Any, of: Fleet[Any]) -> list[int]:
    """The scores of one plugin when all targets are feasible."""
    found = scores_of(plugin, request, of, np.ones(len(of), dtype=bool))
    return [0] * len(of) if found is None else [int(one) for one in found]


APIS = [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]
GROUPS = [{"affinityName": "own", "clusterNames": ["m1"]}, {"affinityName": "cloud", "clusterNames": ["m2"]}]


def member(name: str, pods: int = 10, cpu: int = 100, **spec: Any) -> Cluster:
    allocatable = {"pods": str(pods), "cpu": str(cpu)}
    return cluster(name, status={"apiEnablements": APIS, "resourceSummary": {"allocatable": allocatable}}, **spec)


def fleet_with_pods(*pods: int) -> Fleet[Cluster]:
    return fleet(*(member(f"m{number}", room) for number, room in enumerate(pods, 1)))


PREFERENCE = {
    "mode": "Exact",
    "configurations": [
        {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "carbon", "scoreName": "green"}}, "weight": 1}
    ],
}


def fleet_with_scores(*scores: int | None, pods: int = 100) -> Fleet[Cluster]:
    sheets = {f"m{i}": ExternalValue({"green": score}) for i, score in enumerate(scores, 1) if score is not None}
    members = [member(f"m{i}", pods) for i in range(1, len(scores) + 1)]
    return fleet(*members, external_values={"AddOnPlacementScore/carbon": sheets})
