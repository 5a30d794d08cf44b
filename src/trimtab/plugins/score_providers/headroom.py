"""Score clusters by the share of cpu and memory that is not requested."""

from collections.abc import Iterator, Mapping, Sequence

from trimtab.decide.ocm.score_provider import ClusterScores, ProviderCluster, provider

RESOURCES = ("cpu", "memory")


@provider("headroom")
def headroom(clusters: Sequence[ProviderCluster], options: Mapping[str, str]) -> Iterator[ClusterScores]:
    """`cpu`, `memory` and the lesser of both as `headroom`: all free is 100, half is 0, full is -100."""
    for cluster in clusters:
        scores = {
            resource: headroom_score(cluster.allocatable[resource], cluster.allocated.get(resource, 0.0))
            for resource in RESOURCES
            if cluster.allocatable.get(resource, 0.0) > 0 and cluster.allocated
        }
        if scores:
            yield ClusterScores(cluster.name, {**scores, "headroom": min(scores.values())})


def headroom_score(allocatable: float, allocated: float) -> int:
    share = max(0.0, min(1.0, 1.0 - allocated / allocatable))
    return round(share * 200 - 100)
