"""Keep workloads off clusters whose taints they do not tolerate."""

from trimtab.api.kinds.cluster import Cluster, Taint
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, filter_plugin, hashable_key
from trimtab.decide.request import PlacementRequest

REPELLING = {"NoSchedule", "NoExecute"}


def format_taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


@filter_plugin(
    "TaintToleration",
    reads=lambda request: hashable_key(request.placement.spec.cluster_tolerations),
    skips_placed=True,
    limits_placed=True,
)
def taint_toleration(request: PlacementRequest, fleet: Fleet[Cluster]) -> Check[Cluster]:
    tolerations = request.placement.spec.cluster_tolerations

    def check(cluster: Cluster) -> Reason | None:
        for taint in cluster.spec.taints:
            if taint.effect in REPELLING and not any(t.tolerates(taint) for t in tolerations):
                return Reason("UntoleratedTaint", f"cluster(s) had untolerated taint {{{format_taint(taint)}}}")
        return None

    return check
