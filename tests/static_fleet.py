"""The fleet of a view made of fixed clusters, for controllers that preview decisions."""

from datetime import datetime
from typing import Any

from builders import cluster

from trimtab.api.kinds.cluster import APIEnablement, APIResource, Cluster
from trimtab.decide.fleet import Fleet
from trimtab.plugins import filters, scores
from trimtab.registry import discover

DEPLOYMENTS = APIEnablement(group_version="apps/v1", resources=(APIResource(name="deployments", kind="Deployment"),))


class StaticFleet:
    """The source of a view's fleet with these clusters."""

    def __init__(self, clusters: list[Cluster]) -> None:
        discover(filters)
        discover(scores)
        self.clusters = clusters

    def at(self, now: datetime) -> Fleet[Cluster]:
        return Fleet.of(self.clusters, now=now)


def serving_cluster(name: str, *taints: str, **more: Any) -> Cluster:
    """A cluster with the Deployment API enabled."""
    found = cluster(name, *taints, **more)
    return found.but(status=found.status.but(api_enablements=(DEPLOYMENTS,)))
