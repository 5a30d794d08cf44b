"""The interface of score providers: clusters in, scores with a validity out.

A provider is any function `provide(clusters, options)` that yields `(cluster, scores, seconds)`: the name of a cluster,
its scores by name (-100 to 100, higher is better), and how long they are valid (None: the runner's default).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore, AddOnPlacementScoreStatus, AddOnScoreValue
from trimtab.api.quantity import InvalidQuantity, approximate_float
from trimtab.api.value import Meta, QuantityText
from trimtab.decide.ocm.selectors import claims_of
from trimtab.errors import InputError
from trimtab.registry import Registry

LOWEST, HIGHEST = -100, 100


class ProviderCluster(NamedTuple):
    """The input of a provider for one cluster."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    claims: Mapping[str, str]
    allocatable: Mapping[str, float]
    """The sum over all nodes."""
    allocated: Mapping[str, float]
    """The amounts in use; empty when they are not reported."""


class ClusterScores(NamedTuple):
    """The scores of one cluster, and for how many seconds they are valid."""

    cluster: str
    scores: Mapping[str, float]
    seconds: float | None = None


ScoreProvider: TypeAlias = Callable[[Sequence[ProviderCluster], Mapping[str, str]], Iterable[ClusterScores]]
providers: Registry[ScoreProvider] = Registry("score provider")
"""The built-in providers."""


def provider(name: str) -> Callable[[ScoreProvider], ScoreProvider]:
    """Register a provider by name."""
    return lambda provide: providers.add(name, provide)


def provider_clusters(clusters: Iterable[Cluster], managed: Iterable[ManagedCluster]) -> list[ProviderCluster]:
    """Every cluster once, with the data of its Cluster and its ManagedCluster."""
    found = {one.name: _from_managed(one) for one in managed}
    for cluster in clusters:
        summary = cluster.status.resource_summary
        other = found.get(cluster.name)
        found[cluster.name] = ProviderCluster(
            cluster.name,
            {**(other.labels if other else {}), **cluster.metadata.labels},
            {**(other.annotations if other else {}), **cluster.metadata.annotations},
            other.claims if other else {},
            _numbers(summary.allocatable) if summary else {},
            # a resource that the summary does not list as allocated is unused
            {**dict.fromkeys(summary.allocatable, 0.0), **_numbers(summary.allocated)} if summary else {},
        )
    return [found[name] for name in sorted(found)]


def _from_managed(cluster: ManagedCluster) -> ProviderCluster:
    metadata = cluster.metadata
    capacity = _numbers(cluster.status.allocatable)
    return ProviderCluster(cluster.name, metadata.labels, metadata.annotations, claims_of(cluster), capacity, {})


def _numbers(quantities: Mapping[str, QuantityText]) -> dict[str, float]:
    found = {}
    for name, quantity in quantities.items():
        try:
            found[name] = approximate_float(quantity)
        except InvalidQuantity:
            continue
    return found


def normalize_to_range(values: Mapping[str, float], *, best: str = "highest") -> dict[str, int]:
    """Map numbers to scores: the best gets 100, the worst -100, the others in proportion; equal numbers get 100."""
    if not values:
        return {}
    low, high = min(values.values()), max(values.values())
    if low == high:
        return dict.fromkeys(values, HIGHEST)
    sign = 1 if best == "highest" else -1
    return {name: round(sign * ((value - low) / (high - low) * 200 - 100)) for name, value in values.items()}


def run_provider(
    provide: ScoreProvider, clusters: Sequence[ProviderCluster], options: Mapping[str, str]
) -> Iterator[ClusterScores]:
    """The validated results of the provider; raises InputError with the invalid cluster and score."""
    known = {cluster.name for cluster in clusters}
    for given in _provider_results(provide, clusters, options):
        if not isinstance(given, tuple) or not 2 <= len(given) <= 3 or not isinstance(given[1], Mapping):
            raise InputError(f"the provider yielded {given!r}, not (cluster, scores, seconds)")
        result = ClusterScores(*given)
        if result.cluster not in known:
            raise InputError(f"the provider scored {result.cluster!r}, which is not a cluster of this fleet")
        if result.seconds is not None and not (_is_number(result.seconds) and result.seconds > 0):
            raise InputError(
                f"the scores of cluster {result.cluster!r} are valid for {result.seconds!r} seconds; must be above 0"
            )
        for name, value in result.scores.items():
            if not _is_number(value) or not LOWEST <= value <= HIGHEST:
                raise InputError(f"score {name!r} of cluster {result.cluster!r} is {value!r}; it must be -100 to 100")
        yield result


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _provider_results(
    provide: ScoreProvider, clusters: Sequence[ProviderCluster], options: Mapping[str, str]
) -> Iterator[object]:
    """Report any exception of a provider in one line: it is third-party code."""
    try:
        yield from provide(clusters, options)
    except InputError:
        raise
    except Exception as fault:
        raise InputError(f"the provider failed: {type(fault).__name__}: {fault}") from fault


def placement_scores(
    resource: str,
    given: Iterable[ClusterScores],
    before: Mapping[str, AddOnPlacementScore],
    now: datetime,
    seconds: float,
) -> Iterator[AddOnPlacementScore]:
    """The desired objects; `before` are the existing ones, by cluster."""
    for result in given:
        until = now + timedelta(seconds=seconds if result.seconds is None else result.seconds)
        scores = tuple(AddOnScoreValue(name=name, value=round(value)) for name, value in sorted(result.scores.items()))
        old = before.get(
            result.cluster,
            AddOnPlacementScore(metadata=Meta(name=resource, namespace=result.cluster)),
        )
        status = AddOnPlacementScoreStatus(
            conditions=old.status.conditions, scores=scores, valid_until=until.replace(microsecond=0)
        )
        yield old.but(status=status)
