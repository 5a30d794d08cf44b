"""One attempt to place one request on clusters: filter, score, select, divide."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from trimtab.api.affinity import affinity_matcher
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import StaticClusterWeight
from trimtab.api.lazy import lazily
from trimtab.api.profile import Profile
from trimtab.decide.aggregation import aggregate
from trimtab.decide.capacity import estimate_free_replicas
from trimtab.decide.divide import (
    apportion_sorted,
    apportion_with_limits,
    heaviest,
)
from trimtab.decide.feasible import columns_in_use, combined_filters, limited_columns, no_fit_message, scores_for
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import (
    FeasibleSet,
    ScorePlugin,
    few_scores,
    hashable_key,
    prioritizers,
    weighted_total,
)
from trimtab.decide.request import (
    AGGREGATED,
    BY_SCORE,
    DUPLICATED,
    STATIC,
    DecisionCounts,
    PlacementRequest,
    Prioritizer,
    ScoreQuery,
)
from trimtab.decide.shares import ReplicaShares, Selected, as_list, shares_in_order, shares_of, sort_by_name
from trimtab.decide.spread import ClusterRanking, SpreadFailure, select_by_spread_constraints

DECISION_COUNTS = "Choices"
"""The kind of external value with the number of bindings per cluster, for the prioritizer Balance."""
NO_FIT, UNSCHEDULABLE, OTHER = "FitError", "Unschedulable", "Other"
QUOTA_EXCEEDED = "QuotaExceeded"
"""A quota of the namespace refuses the decision."""
_BEYOND_ALL_GROUPS = 1000


class Failure(NamedTuple):
    """Why nothing was decided: its kind, and a function that builds the message only when it is read."""

    kind: str
    build_message: Callable[[], str]

    @property
    def message(self) -> str:
        return self.build_message()


def _failure(kind: str, message: str) -> Failure:
    return Failure(kind, lambda: message)


class PlacementAttempt:
    """One attempt with one affinity group (or none). Intermediate results are computed on first use."""

    def __init__(self, request: PlacementRequest, fleet: Fleet[Cluster], profile: Profile) -> None:
        self.ask = request
        self.fleet = fleet
        self.profile = profile
        self.result: ReplicaShares | Failure = self._place()

    @lazily
    def placed_replicas(self) -> dict[int, int]:
        """Replicas per column where the workload is, in binding order; removed clusters are omitted."""
        index = self.fleet.index
        return {index[name]: replicas for name, replicas in self.ask.placed if name in index}

    @lazily
    def feasible(self) -> FeasibleSet:
        placed = columns_in_use(self.ask, self.fleet) if self.ask.placed else ()
        return combined_filters(self.ask).feasible(self.ask, self.fleet, placed)

    @lazily
    def limited_columns(self) -> list[int]:
        """Clusters that keep the replicas they have and get no more: they have a taint that is not tolerated.

        A duplicated workload has all replicas in each of its clusters, so that there is nothing to limit.
        """
        # a feasible set with a cache key contains no cluster that a filter accepts only because it is in use
        if (
            not self.profile.taints_limit_clusters_in_use
            or not self.ask.placed
            or self.feasible.cache_key is not None
            or self.ask.placement.strategy == DUPLICATED
        ):
            return []
        return limited_columns(self.ask, self.fleet, columns_in_use(self.ask, self.fleet))

    @lazily
    def free_replicas(self) -> Array:
        free = estimate_free_replicas(self.ask, self.fleet, from_nodes=self.profile.capacity_from_nodes)
        if not self.limited_columns:
            return free
        free = free.copy()
        free[self.limited_columns] = 0
        return free

    @lazily
    def available(self) -> Array:
        """Capacity including the replicas that the workload already has there."""
        if not self.placed_replicas:
            return self.free_replicas
        capacity = self.free_replicas.copy()
        for column, replicas in self.placed_replicas.items():
            capacity[column] += replicas
        return capacity

    @lazily
    def total(self) -> Array | None:
        """The weighted sum of the placement's prioritizers."""
        if not self.ask.placement.prioritizers:
            return None
        total = np.zeros(len(self.fleet), dtype=np.int64)
        for ranked in self.ask.placement.prioritizers:
            plugin = prioritizers.get(ranked.plugin)
            if plugin is None:
                continue
            query = self.score_query(ranked)
            total += self.weigh([(plugin, ranked.weight)], query)
        return total

    def weigh(self, plugins: Sequence[tuple[ScorePlugin[Any, Cluster], int]], query: Any) -> Array:
        """The weighted sum of the scores of these plugins."""
        return weighted_total(plugins, query, self.fleet, self.feasible.mask)

    def score(self, plugins: Sequence[ScorePlugin[Any, Cluster]]) -> Array | dict[int, int]:
        """The sum of the scores of these plugins; by column where only a few have one."""
        few = few_scores(plugins, self.ask, self.fleet)
        return self.weigh([(plugin, 1) for plugin in plugins], self.ask) if few is None else few

    def score_query(self, ranked: Prioritizer) -> ScoreQuery:
        placed = self.ask.placed_clusters
        if ranked.plugin != "Balance" or DECISION_COUNTS not in self.fleet.external_values:
            return ScoreQuery(ranked.coordinate, placed)
        times = self.fleet.column(
            DECISION_COUNTS, lambda: lambda cluster: self.fleet.external_value(DECISION_COUNTS, cluster.name) or 0
        )
        return ScoreQuery(ranked.coordinate, placed, placed, DecisionCounts(times, {}))

    @lazily
    def overflow(self) -> Array | None:
        term = self.ask.affinity_term
        if self.ask.placement.spec.cluster_affinity is not None or term is None or not term.overflow_affinities:
            return None
        return self.fleet.column(("overflow", hashable_key(term)), lambda: _overflow_rank_of(self.ask))

    @lazily
    def ranking(self) -> ClusterRanking:
        plugins = [plugin for plugin in scores_for(self.ask) if plugin.targets is None or plugin.targets(self.ask)]
        if not plugins and not self.ask.placement.prioritizers and self.ask.group < 0:
            return ClusterRanking(self.available)
        return ClusterRanking(
            self.available, score=self.score(plugins) if plugins else None, total=self.total, overflow=self.overflow
        )

    @lazily
    def selected_columns(self) -> Array | list[int] | SpreadFailure:
        """All feasible clusters in name order; with spread constraints a list in order of selection."""
        plan = self.ask.placement
        if not plan.spread_fields or plan.ignores_spread:
            return self.feasible.columns
        return select_by_spread_constraints(self.ask, self.fleet, self.feasible, self.ranking)

    def _place(self) -> ReplicaShares | Failure:
        if len(self.feasible.columns) == 0:
            return Failure(NO_FIT, partial(no_fit_message, self.ask, self.fleet))
        selected = self.selected_columns
        if isinstance(selected, SpreadFailure):
            return _failure(OTHER, f"failed to select clusters: {selected.message}")
        if len(selected) == 0:
            return _failure(OTHER, "failed to assign replicas: no clusters available to schedule")
        shares = self._assign(selected)
        if isinstance(shares, Failure):
            return _failure(shares.kind, f"failed to assign replicas: {shares.message}")
        if self.ask.feature_gates.empty_workloads:
            shares = shares_of({**dict.fromkeys(as_list(selected), 0), **shares.by_column()}, keep_empty=True)
        return shares

    def _assign(self, selected: Selected) -> ReplicaShares | Failure:
        request = self.ask
        if not (request.replicas > 0 or request.resource_request is not None) or len(request.components) > 1:
            return ReplicaShares(sort_by_name(selected), 0)
        if request.placement.strategy == "":
            return _failure(OTHER, _unsupported_strategy_message(request))
        if request.group < 0:
            return self._divide(selected, request.replicas)
        if self.overflow is not None:
            return self._assign_tier_by_tier(selected, self.overflow)
        shares = self._divide(selected, request.replicas)
        if isinstance(shares, ReplicaShares) and self._exceeds_capacity(shares):
            return _failure(UNSCHEDULABLE, "Clusters available replicas are not enough to schedule.")
        return shares

    def _exceeds_capacity(self, shares: ReplicaShares) -> bool:
        """Whether an affinity group does not fit because one of its clusters gets more than it can take."""
        if not self.profile.affinity_groups_need_capacity:
            return False
        return bool((self.available[shares.columns] < np.array(shares.replicas)).any())

    def _assign_tier_by_tier(self, selected: Selected, overflow: Array) -> ReplicaShares | Failure:
        """The group's own clusters first; the rest goes to its overflow affinities in order."""
        left, together = self.ask.replicas, dict[int, int]()
        ordered = selected if isinstance(selected, list) else self.ranking.sort(selected)
        for tier in sorted(set(overflow[ordered].tolist())):
            members = [column for column in ordered if overflow[column] == tier]
            replicas = min(left, int(self.available[members].sum()))
            shares = self._divide(members, replicas)
            if isinstance(shares, Failure):
                return shares
            together.update(shares.by_column())
            left -= replicas
            if left == 0:
                return shares_of(together)
        return _failure(UNSCHEDULABLE, "Clusters available replicas are not enough to schedule.")

    def _divide(self, selected: Selected, replicas: int) -> ReplicaShares | Failure:
        strategy = self.ask.placement.strategy
        if strategy == DUPLICATED:
            return ReplicaShares(sort_by_name(selected), replicas) if replicas else ReplicaShares((), 0)
        if strategy == STATIC:
            return self._divide_by_static_weights(selected, replicas)
        if strategy == BY_SCORE:
            return self._divide_by_score(np.asarray(sort_by_name(selected)), replicas)
        return self._divide_by_capacity(selected, replicas)

    def _divide_by_static_weights(self, selected: Selected, replicas: int) -> ReplicaShares | Failure:
        columns, weights = self._sort_by_static_weight(selected)
        if self.limited_columns:
            limits = [self.placed_replicas[c] if c in self.limited_columns else replicas for c in columns.tolist()]
            if sum(limits) < replicas:
                return _failure(UNSCHEDULABLE, _not_enough_message("failed to divide by weights", sum(limits)))
            shares = apportion_with_limits(replicas, weights.tolist(), limits, last_wins_ties=False)
            return shares_of(dict(zip(columns.tolist(), shares, strict=True)))
        # with n replicas, only the first n can get one
        shares = apportion_sorted(replicas, weights[: max(0, replicas)].tolist())
        return shares_in_order(columns[: len(shares)].tolist(), shares)

    def _sort_by_static_weight(self, selected: Selected) -> tuple[Array, Array]:
        """The selected columns by falling weight: the same for all requests that may use the same clusters."""
        rules, leans_back = self.ask.placement.static_weights, self.ask.last_wins_ties
        rules_key = None if rules is None else hashable_key(rules)

        def compute() -> tuple[Array, Array]:
            columns = np.asarray(sort_by_name(selected))[:: -1 if leans_back else 1]
            weights = np.ones(len(columns), dtype=np.int64)
            if rules is not None:
                given = self.fleet.column(("weights", rules_key), lambda: _static_weight_of(rules))[columns]
                weights = given if given.any() else weights
            order = np.argsort(-weights, kind="stable")  # a stable sort keeps equal weights in tie-breaking order
            order = order[weights[order] > 0]
            return columns[order], weights[order]

        if isinstance(selected, list) or self.feasible.cache_key is None:
            return compute()
        return self.fleet.compute_once(("static order", rules_key, self.feasible.cache_key, leans_back), compute)

    def _divide_by_score(self, columns: Array, replicas: int) -> ReplicaShares | Failure:
        weights, capacity = self.score_weights()[columns], self.available[columns]
        fits = int(np.minimum(capacity[weights > 0], replicas).sum())
        if fits < replicas:
            return _failure(UNSCHEDULABLE, _not_enough_message("failed to divide by score", fits))
        given = apportion_with_limits(
            replicas, weights.tolist(), capacity.tolist(), last_wins_ties=self.ask.last_wins_ties
        )
        return shares_of(dict(zip(columns.tolist(), given, strict=True)))

    def score_weights(self) -> Array:
        """From 0 for the worst possible prioritizer total to 1000 for the best."""
        weight = sum(abs(ranked.weight) for ranked in self.ask.placement.prioritizers)
        if self.total is None or weight == 0:
            return np.full(len(self.fleet), 500, dtype=np.int64)
        weights: Array = np.clip((2000 * (self.total + 100 * weight) + 200 * weight) // (400 * weight), 0, 1000)
        return weights

    def _divide_by_capacity(self, selected: Selected, replicas: int) -> ReplicaShares | Failure:
        """Dynamic weights and aggregation: keep existing replicas in steady mode, and distribute the difference."""
        if self.ask.fresh:
            return self._distribute("failed to do fresh scale", replicas, selected, self.available, {})
        holding = self._replicas_kept_in(selected) if self.ask.placed else {}
        held = sum(holding.values())
        if held > replicas:
            previous = np.zeros(len(self.fleet), dtype=np.int64)
            previous[list(holding)] = list(holding.values())
            return self._distribute("failed to scale down", replicas, list(holding), previous, {})
        if held < replicas:
            return self._distribute("failed to scale up", replicas - held, selected, self.free_replicas, holding)
        return shares_of(holding)

    def _replicas_kept_in(self, selected: Selected) -> dict[int, int]:
        if isinstance(selected, list):
            return {column: replicas for column, replicas in self.placed_replicas.items() if column in selected}
        return {column: replicas for column, replicas in self.placed_replicas.items() if self.feasible.mask[column]}

    def _distribute(
        self, what: str, target: int, selected: Selected, capacity: Array, keep: Mapping[int, int]
    ) -> ReplicaShares | Failure:
        """Distribute `target` by the capacity of the selected clusters, in addition to what they keep."""
        if self.ask.placement.strategy == AGGREGATED:
            shares = aggregate(
                target, selected, capacity, keep, lambda: self.ranking, last_wins_ties=self.ask.last_wins_ties
            )
        else:
            shares = self._apportion_by_capacity(target, np.asarray(selected), capacity)
        if shares is None:
            return _failure(UNSCHEDULABLE, _not_enough_message(what, int(capacity[selected].sum())))
        if not keep:
            return shares
        together = dict(keep)
        for column, replicas in shares.by_column().items():
            together[column] = together.get(column, 0) + replicas
        return shares_of(together)

    def _apportion_by_capacity(self, seats: int, columns: Array, capacity: Array) -> ReplicaShares | None:
        """Apportion by capacity; None when there is too little."""
        able = heaviest(seats, capacity, columns, last_wins_ties=self.ask.last_wins_ties)
        if sum(able.weights) < seats and int(capacity[columns].sum()) < seats:
            return None
        return shares_in_order(able.positions, apportion_sorted(seats, able.weights))


def _overflow_rank_of(request: PlacementRequest) -> Callable[[Cluster], int]:
    term = request.affinity_term
    tests = [
        affinity_matcher(term),
        *(affinity_matcher(more) for more in (term.overflow_affinities if term is not None else ())),
    ]

    def order(cluster: Cluster) -> int:
        return next((position for position, test in enumerate(tests) if test(cluster)), _BEYOND_ALL_GROUPS)

    return order


def _static_weight_of(rules: tuple[StaticClusterWeight, ...]) -> Callable[[Cluster], int]:
    tests = [(affinity_matcher(rule.target_cluster), rule.weight) for rule in rules]
    return lambda cluster: max((weight for test, weight in tests if test(cluster)), default=0)


def _unsupported_strategy_message(request: PlacementRequest) -> str:
    scheduling = request.placement.spec.replica_scheduling
    kind = scheduling.replica_scheduling_type if scheduling is not None else ""
    preference = scheduling.replica_division_preference if scheduling is not None else ""
    return (
        f"unsupported replica scheduling strategy, replicaSchedulingType: {kind}, "
        f"replicaDivisionPreference: {preference}, please try another scheduling strategy"
    )


def _not_enough_message(what: str, capacity: int) -> str:
    return f"{what}: Clusters available replicas {capacity} are not enough to schedule."
