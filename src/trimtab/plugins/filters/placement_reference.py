"""Keep workloads inside the decisions of the Placement that their policy references."""

from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, filter_plugin
from trimtab.decide.request import PlacementRequest

NOT_DECIDED = Reason("NotDecided", "cluster(s) were not selected by the referenced Placement")


@filter_plugin("PlacementReference", reads=lambda request: request.candidates)
def placement_reference(request: PlacementRequest, fleet: Fleet[Cluster]) -> Check[Cluster]:
    candidates = request.candidates

    def check(cluster: Cluster) -> Reason | None:
        return None if candidates is None or cluster.metadata.name in candidates else NOT_DECIDED

    return check
