"""One attempt to place one request on clusters: filter, score, select, divide."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import compress, repeat
from typing import NamedTuple, TypeAlias

import numpy as np

from trimtab.api.affinity import affinity_matcher
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import StaticClusterWeight
from trimtab.api.lazy import lazily
from trimtab.api.profile import Profile
from trimtab.decide.capacity import allocatable
from trimtab.decide.divide import apportion, apportion_within, contenders, fewest, roomiest
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import (
    Check,
    Filter,
    Objection,
    Reason,
    Score,
    Sieve,
    Sifted,
    filters,
    objections,
    prioritizers,
    scores,
    sealed,
    tally,
)
from trimtab.decide.request import AGGREGATED, BY_SCORE, DUPLICATED, STATIC, Ask, Popularity, Prioritizer, Question
from trimtab.decide.spread import Refusal, Standing, spread

Selected: TypeAlias = Array | list[int]
"""An array is in name order, a list in order of selection."""

CHOICES = "Choices"
"""The kind of external value with the number of bindings per cluster, for the prioritizer Balance."""
NO_FIT, NO_ROOM, OTHER = "FitError", "Unschedulable", "Other"
_BEYOND_ALL_GROUPS = 1000


class Failure(NamedTuple):
    """Why nothing was decided: its kind, and a function that builds the message only when it is read."""

    kind: str
    tell: Callable[[], str]

    @property
    def message(self) -> str:
        return self.tell()


def _failure(kind: str, message: str) -> Failure:
    return Failure(kind, lambda: message)


class Shares(NamedTuple):
    """Replicas by column of the fleet in name order: one number per column, or one for all."""

    columns: Sequence[int] | Array
    replicas: Sequence[int] | int

    def named(self, fleet: Fleet[Cluster]) -> list[tuple[str, int]]:
        if isinstance(self.columns, np.ndarray):
            names = fleet.called(self.columns)
        else:
            names = [fleet.names[column] for column in self.columns]
        return list(zip(names, repeat(self.replicas) if isinstance(self.replicas, int) else self.replicas))  # noqa: B905 - repeat is infinite

    def by_column(self) -> dict[int, int]:
        columns = self.columns.tolist() if isinstance(self.columns, np.ndarray) else self.columns
        if isinstance(self.replicas, int):
            return dict.fromkeys(columns, self.replicas)
        return dict(zip(columns, self.replicas, strict=True))


class Attempt:
    """One attempt with one affinity group (or none). Intermediate results are computed on first use."""

    def __init__(self, ask: Ask, fleet: Fleet[Cluster], profile: Profile) -> None:
        self.ask = ask
        self.fleet = fleet
        self.profile = profile
        self.result: Shares | Failure = self._place()

    @lazily
    def placed(self) -> dict[int, int]:
        """Replicas per column where the workload is, in binding order; removed clusters are omitted."""
        index = self.fleet.index
        return {index[name]: replicas for name, replicas in self.ask.placed if name in index}

    @lazily
    def feasible(self) -> Sifted:
        return feasible(self.ask, self.fleet)

    @lazily
    def allocatable(self) -> Array:
        return allocatable(self.ask, self.fleet)

    @lazily
    def available(self) -> Array:
        """Capacity including the replicas that the workload already has there."""
        if not self.placed:
            return self.allocatable
        room = self.allocatable.copy()
        for column, replicas in self.placed.items():
            room[column] += replicas
        return room

    @lazily
    def total(self) -> Array | None:
        """The weighted sum of the placement's prioritizers."""
        if not self.ask.plan.prioritizers:
            return None
        total = np.zeros(len(self.fleet), dtype=np.int64)
        for ranked in self.ask.plan.prioritizers:
            plugin = prioritizers.get(ranked.plugin)
            if plugin is None:
                continue
            query = self.question(ranked)
            swept = plugin.sweep(query, self.fleet, self.feasible.mask) if plugin.sweep is not None else None
            total += tally([(plugin, ranked.weight)], query, self.fleet) if swept is None else ranked.weight * swept
        return total

    def question(self, ranked: Prioritizer) -> Question:
        placed = self.ask.incumbents
        if ranked.plugin != "Balance" or CHOICES not in self.fleet.notes:
            return Question(ranked.coordinate, placed)
        times = self.fleet.column(CHOICES, lambda: lambda cluster: self.fleet.about(CHOICES, cluster.name) or 0)
        return Question(ranked.coordinate, placed, placed, Popularity(times, {}))

    @lazily
    def overflow(self) -> Array | None:
        term = self.ask.term
        if self.ask.plan.placement.cluster_affinity is not None or term is None or not term.overflow_affinities:
            return None
        return self.fleet.column(("overflow", sealed(term)), lambda: _overflow_order(self.ask))

    @lazily
    def standing(self) -> Standing:
        plugins = [plugin for plugin in scores_for(self.ask) if plugin.about is None or plugin.about(self.ask)]
        score = tally([(plugin, 1) for plugin in plugins], self.ask, self.fleet) if plugins else None
        return Standing(self.available, score=score, total=self.total, overflow=self.overflow)

    @lazily
    def selected(self) -> Array | list[int] | Refusal:
        """All feasible clusters in name order; with spread constraints a list in order of selection."""
        plan = self.ask.plan
        if not plan.spread_fields or plan.ignores_spread:
            return self.feasible.columns
        return spread(self.ask, self.fleet, self.feasible, self.standing)

    def _place(self) -> Shares | Failure:
        if len(self.feasible.columns) == 0:
            return Failure(NO_FIT, partial(why_none_fits, self.ask, self.fleet))
        if isinstance(self.selected, Refusal):
            return _failure(OTHER, f"failed to select clusters: {self.selected.message}")
        if len(self.selected) == 0:
            return _failure(OTHER, "failed to assign replicas: no clusters available to schedule")
        shares = self._assign(self.selected)
        if isinstance(shares, Failure):
            return _failure(shares.kind, f"failed to assign replicas: {shares.message}")
        if self.ask.gates.empty_workloads:
            shares = _together({**dict.fromkeys(_as_list(self.selected), 0), **shares.by_column()}, keep_empty=True)
        return shares

    def _assign(self, selected: Selected) -> Shares | Failure:
        request = self.ask
        if not (request.replicas > 0 or request.request is not None) or len(request.components) > 1:
            return Shares(_by_name(selected), 0)
        if request.plan.strategy == "":
            return _failure(OTHER, _unsupported(request))
        if self.overflow is not None:
            return self._assign_tier_by_tier(selected, self.overflow)
        shares = self._divide(selected, request.replicas)
        if isinstance(shares, Shares) and self._lacks_room(shares):
            return _failure(NO_ROOM, "Clusters available replicas are not enough to schedule.")
        return shares

    def _lacks_room(self, shares: Shares) -> bool:
        """Whether an affinity group does not fit because one of its clusters gets more than it can take."""
        if self.ask.group < 0 or not self.profile.affinity_groups_need_capacity:
            return False
        return bool((self.available[shares.columns] < np.array(shares.replicas)).any())

    def _assign_tier_by_tier(self, selected: Selected, overflow: Array) -> Shares | Failure:
        """The group's own clusters first; the rest goes to its overflow affinities in order."""
        left, together = self.ask.replicas, dict[int, int]()
        ordered = selected if isinstance(selected, list) else self.standing.sort(selected).tolist()
        for tier in sorted(set(overflow[ordered].tolist())):
            members = [column for column in ordered if overflow[column] == tier]
            replicas = min(left, int(self.available[members].sum()))
            shares = self._divide(members, replicas)
            if isinstance(shares, Failure):
                return shares
            together.update(shares.by_column())
            left -= replicas
            if left == 0:
                return _together(together)
        return _failure(NO_ROOM, "Clusters available replicas are not enough to schedule.")

    def _divide(self, selected: Selected, replicas: int) -> Shares | Failure:
        strategy = self.ask.plan.strategy
        if strategy == DUPLICATED:
            return Shares(_by_name(selected), replicas) if replicas else Shares((), 0)
        if strategy == STATIC:
            return self._by_fixed_weights(np.asarray(_by_name(selected)), replicas)
        if strategy == BY_SCORE:
            return self._by_score(np.asarray(_by_name(selected)), replicas)
        return self._by_room(selected, replicas)

    def _by_fixed_weights(self, columns: Array, replicas: int) -> Shares:
        rules = self.ask.plan.static_weights
        weights = None
        if rules is not None:
            weights = self.fleet.column(("weights", sealed(rules)), lambda: _fixed_weight(rules))
        if weights is None or not weights[columns].any():
            weights = np.ones(len(self.fleet), dtype=np.int64)
        shares = self._apportioned(replicas, columns, weights, within_room=False)
        return shares or Shares((), 0)

    def _by_score(self, columns: Array, replicas: int) -> Shares | Failure:
        weights, room = self.score_weights()[columns], self.available[columns]
        fits = int(np.minimum(room[weights > 0], replicas).sum())
        if fits < replicas:
            return _failure(NO_ROOM, _short("failed to divide by score", fits))
        given = apportion_within(replicas, weights.tolist(), room.tolist(), leans_back=self.ask.leans_back)
        return _together(dict(zip(columns.tolist(), given, strict=True)))

    def score_weights(self) -> Array:
        """From 0 for the worst possible prioritizer total to 1000 for the best."""
        weight = sum(abs(ranked.weight) for ranked in self.ask.plan.prioritizers)
        if self.total is None or weight == 0:
            return np.full(len(self.fleet), 500, dtype=np.int64)
        weights: Array = np.clip((2000 * (self.total + 100 * weight) + 200 * weight) // (400 * weight), 0, 1000)
        return weights

    def _by_room(self, selected: Selected, replicas: int) -> Shares | Failure:
        """Dynamic weights and aggregation: keep existing replicas in steady mode, and distribute the difference."""
        holding = self._held(selected)
        held = sum(holding.values())
        if self.ask.fresh:
            return self._share("failed to do fresh scale", replicas, selected, self.available, {})
        if held > replicas:
            previous = np.zeros(len(self.fleet), dtype=np.int64)
            previous[list(holding)] = list(holding.values())
            return self._share("failed to scale down", replicas, list(holding), previous, {})
        if held < replicas:
            return self._share("failed to scale up", replicas - held, selected, self.allocatable, holding)
        return _together(holding)

    def _held(self, selected: Selected) -> dict[int, int]:
        if not self.placed:
            return {}
        if isinstance(selected, list):
            return {column: replicas for column, replicas in self.placed.items() if column in selected}
        return {column: replicas for column, replicas in self.placed.items() if self.feasible.mask[column]}

    def _share(
        self, what: str, target: int, selected: Selected, room: Array, keep: Mapping[int, int]
    ) -> Shares | Failure:
        """Distribute `target` by the capacity of the selected clusters, in addition to what they keep."""
        if self.ask.plan.strategy == AGGREGATED:
            shares = self._aggregated(target, selected, room, keep)
        else:
            shares = self._apportioned(target, np.asarray(_by_name(selected)), room, within_room=True)
        if shares is None:
            return _failure(NO_ROOM, _short(what, int(room[selected].sum())))
        if not keep:
            return shares
        together = dict(keep)
        for column, replicas in shares.by_column().items():
            together[column] = together.get(column, 0) + replicas
        return _together(together)

    def _apportioned(self, seats: int, columns: Array, by: Array, *, within_room: bool) -> Shares | None:
        """Apportion by weight, columns in name order; None when the weights are capacity and there is too little."""
        weights, leans_back = by[columns], self.ask.leans_back
        able = contenders(seats, weights, leans_back=leans_back)
        heavy = weights[able].tolist()
        if within_room and sum(heavy) < seats and int(weights.sum()) < seats:
            return None
        return _nonzero(columns[able].tolist(), apportion(seats, heavy, leans_back=leans_back))

    def _aggregated(self, target: int, selected: Selected, room: Array, keep: Mapping[int, int]) -> Shares | None:
        """Use the fewest clusters, those in use first, then apportion by capacity. None: too little capacity."""
        in_use = [column for column, replicas in keep.items() if replicas > 0]
        columns = selected if isinstance(selected, list) else self._best(target, selected, room, in_use)
        rooms = room[columns].tolist()
        if sum(rooms) < target:
            return None
        first = frozenset([position for position, column in enumerate(columns) if column in in_use] if in_use else ())
        chosen = sorted([(columns[position], rooms[position]) for position in fewest(target, rooms, first)])
        given = apportion(target, [room for _, room in chosen], leans_back=self.ask.leans_back)
        return _nonzero([column for column, _ in chosen], given)

    def _best(self, target: int, columns: Array, room: Array, in_use: Sequence[int]) -> list[int]:
        """A few columns in order of selection that suffice to reach `target`; or all of them."""
        first = np.searchsorted(columns, in_use).tolist() if in_use else ()
        some = columns[roomiest(target, room[columns], first)]
        # where only capacity and name matter, equal capacities are in the right order already
        few: list[int] = some.tolist() if self.standing.is_plain else self.standing.sort_few(some)
        return few


def filters_for(ask: Ask) -> tuple[Filter[Ask, Cluster], ...]:
    """All registered and enabled filters, in name order: the first rejection is the one that is reported."""
    return _filters(len(filters), ask.gates.without)


@lru_cache(maxsize=64)
def _filters(registered: int, without: frozenset[str]) -> tuple[Filter[Ask, Cluster], ...]:
    return tuple(plugin for plugin in filters.values() if plugin.name not in without)


@lru_cache(maxsize=64)
def _sieve(registered: int, without: frozenset[str]) -> Sieve[Ask, Cluster]:
    return Sieve((_STAYS, *_filters(registered, without)))


def feasible(ask: Ask, fleet: Fleet[Cluster]) -> Sifted:
    """The clusters that no filter rejects."""
    placed = spared_columns(ask, fleet) if ask.placed else ()
    return _sieve(len(filters), ask.gates.without).sift(ask, fleet, placed)


def scores_for(ask: Ask) -> tuple[Score[Ask, Cluster], ...]:
    return _scores(len(scores), ask.gates.without)


@lru_cache(maxsize=64)
def _scores(registered: int, without: frozenset[str]) -> tuple[Score[Ask, Cluster], ...]:
    return tuple(plugin for plugin in scores.values() if plugin.name not in without)


def stays(cluster: Cluster) -> bool:
    return cluster.metadata.deletion_timestamp is None


def _study_stays(ask: Ask, fleet: Fleet[Cluster]) -> Check[Cluster]:
    return lambda cluster: None if stays(cluster) else Reason("Deleting", "cluster(s) is being deleted")


_STAYS: Filter[Ask, Cluster] = Filter("Stays", _study_stays, reads=lambda _: None)
"""Terminating clusters are never selected; Karmada reports no reason for it, so it is not a plugin."""


def spared_columns(ask: Ask, fleet: Fleet[Cluster]) -> list[int]:
    return [fleet.index[name] for name in ask.incumbents if name in fleet.index]


def cluster_objections(ask: Ask, fleet: Fleet[Cluster]) -> Iterator[tuple[int, Objection | None]]:
    """For every cluster that is not terminating, the first rejection by a filter."""
    columns = [column for column, cluster in enumerate(fleet.targets) if stays(cluster)]
    return objections(filters_for(ask), ask, fleet, columns, frozenset(spared_columns(ask, fleet)))


def all_objections(ask: Ask, fleet: Fleet[Cluster]) -> Iterator[tuple[int, Objection | None]]:
    """For every cluster the first rejection, including terminating clusters."""
    return objections(all_filters(ask), ask, fleet, range(len(fleet)), frozenset(spared_columns(ask, fleet)))


def all_filters(ask: Ask) -> tuple[Filter[Ask, Cluster], ...]:
    """In the order in which they are evaluated."""
    return (_STAYS, *filters_for(ask))


def why_none_fits(ask: Ask, fleet: Fleet[Cluster]) -> str:
    counts: dict[str, int] = {}
    for _, objection in cluster_objections(ask, fleet):
        if objection is not None:
            counts[objection.reason.message] = counts.get(objection.reason.message, 0) + 1
    if not counts:
        return f"0/{len(fleet)} clusters are available: no cluster exists."
    reasons = sorted(f"{count} {message}" for message, count in counts.items())
    return f"0/{len(fleet)} clusters are available: {', '.join(reasons)}."


def _overflow_order(ask: Ask) -> Callable[[Cluster], int]:
    term = ask.term
    tests = [
        affinity_matcher(term),
        *(affinity_matcher(more) for more in (term.overflow_affinities if term is not None else ())),
    ]

    def order(cluster: Cluster) -> int:
        return next((position for position, test in enumerate(tests) if test(cluster)), _BEYOND_ALL_GROUPS)

    return order


def _fixed_weight(rules: tuple[StaticClusterWeight, ...]) -> Callable[[Cluster], int]:
    tests = [(affinity_matcher(rule.target_cluster), rule.weight) for rule in rules]
    return lambda cluster: max((weight for test, weight in tests if test(cluster)), default=0)


def _unsupported(ask: Ask) -> str:
    scheduling = ask.plan.placement.replica_scheduling
    kind = scheduling.replica_scheduling_type if scheduling is not None else ""
    preference = scheduling.replica_division_preference if scheduling is not None else ""
    return (
        f"unsupported replica scheduling strategy, replicaSchedulingType: {kind}, "
        f"replicaDivisionPreference: {preference}, please try another scheduling strategy"
    )


def _short(what: str, room: int) -> str:
    return f"{what}: Clusters available replicas {room} are not enough to schedule."


def _as_list(selected: Selected) -> list[int]:
    return selected if isinstance(selected, list) else selected.tolist()


def _by_name(selected: Selected) -> Selected:
    return sorted(selected) if isinstance(selected, list) else selected


def _nonzero(columns: Sequence[int], replicas: Sequence[int]) -> Shares:
    return Shares(list(compress(columns, replicas)), [count for count in replicas if count])


def _together(replicas: Mapping[int, int], *, keep_empty: bool = False) -> Shares:
    used = sorted(column for column, count in replicas.items() if count or keep_empty)
    return Shares(used, [replicas[column] for column in used])
