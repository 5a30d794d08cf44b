"""One try to place one ask among clusters: filter, score, select, divide."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from trimtab.api.affinity import belongs
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import StaticClusterWeight
from trimtab.api.profile import Profile
from trimtab.decide.ask import AGGREGATED, BY_SCORE, DUPLICATED, STATIC, Ask, Question
from trimtab.decide.capacity import allocatable
from trimtab.decide.divide import apportion, apportion_within, as_few_as_can_be
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import (
    Filter,
    Mask,
    Objection,
    Score,
    filters,
    objections,
    prioritizers,
    scores,
    sealed,
    sift,
    tally,
)
from trimtab.decide.spread import Refusal, Standing, spread

NO_FIT, NO_ROOM, OTHER = "FitError", "Unschedulable", "Other"
_BEYOND_ALL_GROUPS = 1000
_FEW = 24


class Failure(NamedTuple):
    """Why nothing was decided: its class, and its text, which is only put together when somebody reads it."""

    kind: str
    tell: Callable[[], str]

    @property
    def message(self) -> str:
        return self.tell()


def _failure(kind: str, message: str) -> Failure:
    return Failure(kind, lambda: message)


class Shares(NamedTuple):
    """Who gets how much: columns of the fleet in order of names, and replicas, side by side."""

    columns: list[int]
    replicas: list[int]


class Attempt:
    """One try with one affinity group (or none). Everything it needs to know is computed when it is needed, once."""

    def __init__(self, ask: Ask, fleet: Fleet[Cluster], profile: Profile) -> None:
        self.ask = ask
        self.fleet = fleet
        self.profile = profile
        self.result: Shares | Failure = self._place()

    @cached_property
    def placed(self) -> dict[int, int]:
        """Replicas per column where the workload is, in the order of the binding; clusters that left are left out."""
        index = self.fleet.index
        return {index[name]: replicas for name, replicas in self.ask.placed if name in index}

    @cached_property
    def feasible(self) -> Mask:
        mask = sift(filters_for(self.ask), self.ask, self.fleet, spared_columns(self.ask, self.fleet))
        mask &= ~self.fleet.column("is deleting", lambda: is_deleting, bool)
        return mask

    @cached_property
    def allocatable(self) -> Array:
        return allocatable(self.ask, self.fleet)

    @cached_property
    def available(self) -> Array:
        """Room, with what the workload already has there."""
        if not self.placed:
            return self.allocatable
        room = self.allocatable.copy()
        for column, replicas in self.placed.items():
            room[column] += replicas
        return room

    @cached_property
    def total(self) -> Array | None:
        """By the placement's prioritizers."""
        if not self.ask.plan.prioritizers:
            return None
        total = np.zeros(len(self.fleet), dtype=np.int64)
        for ranked in self.ask.plan.prioritizers:
            plugin = prioritizers.get(ranked.plugin)
            if plugin is None:
                continue
            question = Question(ranked.coordinate, self.ask.incumbents)
            swept = plugin.sweep(question, self.fleet, self.feasible) if plugin.sweep is not None else None
            total += tally([(plugin, ranked.weight)], question, self.fleet) if swept is None else ranked.weight * swept
        return total

    @cached_property
    def overflow(self) -> Array | None:
        term = self.ask.term
        if self.ask.plan.placement.cluster_affinity is not None or term is None or not term.overflow_affinities:
            return None
        return self.fleet.column(("overflow", sealed(term)), lambda: _overflow_order(self.ask))

    @cached_property
    def standing(self) -> Standing:
        plugins = [plugin for plugin in scores_for(self.ask) if plugin.about is None or plugin.about(self.ask)]
        score = tally([(plugin, 1) for plugin in plugins], self.ask, self.fleet) if plugins else None
        return Standing(self.available, score, self.total, self.overflow)

    @cached_property
    def selected(self) -> Array | Refusal:
        """The clusters to use; in the order in which they were taken if spread constraints took them."""
        columns = np.flatnonzero(self.feasible)
        plan = self.ask.plan
        if not plan.placement.spread_constraints or plan.ignores_spread:
            return columns
        return spread(self.ask, self.fleet, columns, self.standing)

    @property
    def is_in_order(self) -> bool:
        """Whether `selected` is in order of choice; otherwise it is in order of names."""
        return bool(self.ask.plan.placement.spread_constraints) and not self.ask.plan.ignores_spread

    def _place(self) -> Shares | Failure:
        if not self.feasible.any():
            return Failure(NO_FIT, partial(why_none_fits, self.ask, self.fleet))
        if isinstance(self.selected, Refusal):
            return _failure(OTHER, f"failed to select clusters: {self.selected.message}")
        if len(self.selected) == 0:
            return _failure(OTHER, "failed to assign replicas: no clusters available to schedule")
        shares = self._assign(self.selected)
        if isinstance(shares, Failure):
            return Failure(shares.kind, lambda: f"failed to assign replicas: {shares.message}")
        if self.ask.gates.empty_workloads:
            missing = set(self.selected.tolist()).difference(shares.columns)
            shares = _together({**dict.fromkeys(missing, 0), **dict(zip(*shares, strict=True))}, keep_empty=True)
        return shares

    def _assign(self, selected: Array) -> Shares | Failure:
        ask = self.ask
        if not (ask.replicas > 0 or ask.request is not None) or len(ask.components) > 1:
            columns = np.sort(selected).tolist()
            return Shares(columns, [0] * len(columns))
        if ask.plan.strategy == "":
            return _failure(OTHER, _unsupported(ask))
        if self.overflow is not None:
            return self._assign_tier_by_tier(selected, self.overflow)
        shares = self._divide(selected, ask.replicas)
        if isinstance(shares, Shares) and self._lacks_room(shares):
            return _failure(NO_ROOM, "Clusters available replicas are not enough to schedule.")
        return shares

    def _lacks_room(self, shares: Shares) -> bool:
        """Whether an affinity group does not satisfy, because one of its clusters is given more than it can take."""
        if self.ask.group < 0 or not self.profile.groups_need_room:
            return False
        return bool((self.available[shares.columns] < np.array(shares.replicas)).any())

    def _assign_tier_by_tier(self, selected: Array, overflow: Array) -> Shares | Failure:
        """The group's own clusters first; what does not fit there goes to its overflow affinities, one by one."""
        left, together = self.ask.replicas, dict[int, int]()
        order = overflow[selected]
        for tier in sorted(set(order.tolist())):
            members = selected[order == tier]
            replicas = min(left, int(self.available[members].sum()))
            shares = self._divide(members, replicas)
            if isinstance(shares, Failure):
                return shares
            together.update(zip(*shares, strict=True))
            left -= replicas
            if left == 0:
                return _together(together)
        return _failure(NO_ROOM, "Clusters available replicas are not enough to schedule.")

    def _divide(self, selected: Array, replicas: int) -> Shares | Failure:
        strategy = self.ask.plan.strategy
        if strategy == DUPLICATED:
            columns: list[int] = (np.sort(selected) if self.is_in_order else selected).tolist() if replicas else []
            return Shares(columns, [replicas] * len(columns))
        if strategy == STATIC:
            return self._by_fixed_weights(selected, replicas)
        if strategy == BY_SCORE:
            return self._by_score(selected, replicas)
        return self._by_room(selected, replicas)

    def _by_fixed_weights(self, selected: Array, replicas: int) -> Shares:
        columns = np.sort(selected) if self.is_in_order else selected
        rules = self.ask.plan.static_weights
        if rules is None:
            weights = np.ones(len(columns), dtype=np.int64)
        else:
            weights = self.fleet.column(("weights", sealed(rules)), lambda: _fixed_weight(rules))[columns]
            if not weights.any():
                weights = np.ones(len(columns), dtype=np.int64)
        return _nonzero(columns, apportion(replicas, weights, leans_back=self.ask.leans_back))

    def _by_score(self, selected: Array, replicas: int) -> Shares | Failure:
        columns = np.sort(selected)
        weights, room = self.score_weights()[columns], self.available[columns]
        fits = int(np.minimum(room[weights > 0], replicas).sum())
        if fits < replicas:
            return _failure(NO_ROOM, _short("failed to divide by score", fits))
        return _nonzero(columns, apportion_within(replicas, weights, room, leans_back=self.ask.leans_back))

    def score_weights(self) -> Array:
        """From 0 for the worst possible total of the prioritizers to 1000 for the best."""
        weight = sum(abs(ranked.weight) for ranked in self.ask.plan.prioritizers)
        if self.total is None or weight == 0:
            return np.full(len(self.fleet), 500, dtype=np.int64)
        return np.clip((2000 * (self.total + 100 * weight) + 200 * weight) // (400 * weight), 0, 1000)

    def _by_room(self, selected: Array, replicas: int) -> Shares | Failure:
        """Dynamic weights and aggregation: keep what is there if the mode is steady, and share out the difference."""
        holding = self._held(selected)
        held = sum(holding.values())
        if self.ask.fresh:
            columns = selected
            weights = self.available[columns]
            return self._share("failed to do fresh scale", replicas, columns, weights, {})
        if held > replicas:
            columns = np.array(list(holding), dtype=np.int64)
            weights = np.array(list(holding.values()), dtype=np.int64)
            return self._share("failed to scale down", replicas, columns, weights, {}, in_order=True)
        if held < replicas:
            return self._share("failed to scale up", replicas - held, selected, self.allocatable[selected], holding)
        return _together(holding)

    def _held(self, selected: Array) -> dict[int, int]:
        if not self.placed:
            return {}
        chosen = set(selected.tolist()) if self.is_in_order or self.overflow is not None else None
        return {
            column: replicas
            for column, replicas in self.placed.items()
            if (column in chosen if chosen is not None else self.feasible[column])
        }

    def _share(
        self,
        what: str,
        target: int,
        columns: Array,
        weights: Array,
        keep: Mapping[int, int],
        *,
        in_order: bool = False,
    ) -> Shares | Failure:
        room = int(weights.sum())
        if room < target:
            return _failure(NO_ROOM, _short(what, room))
        if self.ask.plan.strategy == AGGREGATED:
            columns, weights = self._fewest(target, columns, weights, keep, in_order=in_order or self.is_in_order)
        elif in_order or self.is_in_order:
            by_name = np.argsort(columns)
            columns, weights = columns[by_name], weights[by_name]
        given = apportion(target, weights, leans_back=self.ask.leans_back)
        if not keep:
            return _nonzero(columns, given)
        used = np.flatnonzero(given)
        together = dict(keep)
        for column, replicas in zip(columns[used].tolist(), given[used].tolist(), strict=True):
            together[column] = together.get(column, 0) + replicas
        return _together(together)

    def _fewest(
        self, target: int, columns: Array, weights: Array, keep: Mapping[int, int], *, in_order: bool
    ) -> tuple[Array, Array]:
        """The fewest clusters that can take `target`, those in use first; in order of names."""
        in_use = np.zeros(len(columns), dtype=bool)
        if keep:
            in_use = np.isin(columns, [column for column, replicas in keep.items() if replicas > 0])
        if not in_order:
            columns, weights, in_use = self._best(target, columns, weights, in_use)
        chosen = as_few_as_can_be(weights, target, in_use)
        chosen = chosen[np.argsort(columns[chosen])]
        return columns[chosen], weights[chosen]

    def _best(self, target: int, columns: Array, weights: Array, in_use: Mask) -> tuple[Array, Array, Mask]:
        """Put columns into the order of choice; most need not be looked at when a few roomy ones are enough."""
        if len(columns) > _FEW:
            bar = np.partition(weights, len(weights) - _FEW)[len(weights) - _FEW]
            roomy = (weights >= bar) | in_use
            if int(weights[roomy].sum()) >= target:
                columns = columns[roomy]
                weights, in_use = weights[roomy], in_use[roomy]
        position = np.argsort(self.standing.keys(columns)[0])
        return columns[position], weights[position], in_use[position]


def filters_for(ask: Ask) -> list[Filter[Ask, Cluster]]:
    """All that are registered and not switched off, in order of names: the first to object is the one that is told."""
    return [plugin for plugin in filters.values() if plugin.name not in ask.gates.without]


def scores_for(ask: Ask) -> list[Score[Ask, Cluster]]:
    return [plugin for plugin in scores.values() if plugin.name not in ask.gates.without]


def is_deleting(cluster: Cluster) -> bool:
    return cluster.metadata.deletion_timestamp is not None


def spared_columns(ask: Ask, fleet: Fleet[Cluster]) -> list[int]:
    return [fleet.index[name] for name in ask.incumbents if name in fleet.index]


def cluster_objections(ask: Ask, fleet: Fleet[Cluster]) -> Iterator[tuple[int, Objection | None]]:
    """For every cluster that is not being deleted, the first objection of a filter."""
    columns = [column for column, cluster in enumerate(fleet.targets) if not is_deleting(cluster)]
    return objections(filters_for(ask), ask, fleet, columns, frozenset(spared_columns(ask, fleet)))


def why_none_fits(ask: Ask, fleet: Fleet[Cluster]) -> str:
    told: dict[str, int] = {}
    for _, objection in cluster_objections(ask, fleet):
        if objection is not None:
            told[objection.reason.message] = told.get(objection.reason.message, 0) + 1
    if not told:
        return f"0/{len(fleet)} clusters are available: no cluster exists."
    reasons = sorted(f"{count} {message}" for message, count in told.items())
    return f"0/{len(fleet)} clusters are available: {', '.join(reasons)}."


def _overflow_order(ask: Ask) -> Callable[[Cluster], int]:
    term = ask.term
    tests = [belongs(term), *(belongs(more) for more in (term.overflow_affinities if term is not None else ()))]

    def order(cluster: Cluster) -> int:
        return next((position for position, test in enumerate(tests) if test(cluster)), _BEYOND_ALL_GROUPS)

    return order


def _fixed_weight(rules: tuple[StaticClusterWeight, ...]) -> Callable[[Cluster], int]:
    tests = [(belongs(rule.target_cluster), rule.weight) for rule in rules]
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


def _nonzero(columns: Array, replicas: Array) -> Shares:
    used = np.flatnonzero(replicas)
    return Shares(columns[used].tolist(), replicas[used].tolist())


def _together(replicas: Mapping[int, int], *, keep_empty: bool = False) -> Shares:
    used = sorted(column for column, count in replicas.items() if count or keep_empty)
    return Shares(used, [replicas[column] for column in used])
