"""Keep objects off clusters that do not serve their kind."""

from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, filter_plugin
from trimtab.decide.request import PlacementRequest

MISSING = Reason("APINotEnabled", "cluster(s) did not have the API resource")


@filter_plugin("APIEnablement", reads=lambda request: (request.api_version, request.kind), skips_placed=True)
def api_enablement(request: PlacementRequest, fleet: Fleet[Cluster]) -> Check[Cluster]:
    def check(cluster: Cluster) -> Reason | None:
        for enabled in cluster.status.api_enablements:
            if enabled.group_version == request.api_version and any(r.kind == request.kind for r in enabled.resources):
                return None
        return MISSING

    return check
