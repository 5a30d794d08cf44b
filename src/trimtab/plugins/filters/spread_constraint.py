"""Keep workloads with spread constraints off clusters without the property they are spread by."""

from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, filter_plugin
from trimtab.decide.request import PlacementRequest

PROPERTY_OF_FIELD = {"provider": "provider", "region": "region", "zone": "zones"}
MISSING = {
    field: Reason("PropertyMissing", f"cluster(s) did not have {attribute} property")
    for field, attribute in PROPERTY_OF_FIELD.items()
}


@filter_plugin("SpreadConstraint", reads=lambda request: request.placement.spread_fields)
def spread_constraint(request: PlacementRequest, fleet: Fleet[Cluster]) -> Check[Cluster]:
    needed = [field for field in request.placement.spread_fields if field in PROPERTY_OF_FIELD]

    def check(cluster: Cluster) -> Reason | None:
        for field in needed:
            if not getattr(cluster.spec, PROPERTY_OF_FIELD[field]):
                return MISSING[field]
        return None

    return check
