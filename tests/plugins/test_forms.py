"""Every registered plugin: its rule, its array form and the arrays updated after a change give the same results."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from views import NOON

from plugins.clusters import final_scores
from properties import test_decide_karmada as karmada
from properties import test_decide_ocm as ocm
from properties import test_decide_pods as pods
from properties.hypothesis_settings import EFFORT
from trimtab.api.kinds.policy import AddOnScore, ScoreCoordinate
from trimtab.decide.fleet import ExternalValue, Fleet
from trimtab.decide.framework import (
    FilterPlugin,
    ScorePlugin,
    filter_mask,
    filters,
    node_filters,
    node_scores,
    placement_filters,
    prioritizers,
    scores,
)
from trimtab.decide.ocm.decision import Misconfigured
from trimtab.decide.ocm.request import OcmRequest
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.request import pod_request_for
from trimtab.decide.request import DecisionCounts, ScoreQuery, placement_request_of
from trimtab.interpret.cel.expressions import compiler
from trimtab.plugins import load

load()
CEL = compiler()


class PluginCase(NamedTuple):
    """Two requests and a fleet; the fleet before one of its targets changed, and the change."""

    requests: tuple[Any, Any]
    before: Fleet[Any]
    changed: tuple[Any, ...]
    is_load: bool = False
    """Whether only what runs on the target changed."""

    def after(self) -> Fleet[Any]:
        """The fleet after the change, with the arrays that were cached before it."""
        if not self.is_load:
            return self.before.change(self.changed)
        fleet = self.before
        for target in self.changed:
            fleet = fleet.change_load(target)
        return fleet

    def fleet(self) -> Fleet[Any]:
        """The fleet after the change, without any cached array."""
        return Fleet.of(
            self.before.change(self.changed).targets, now=self.before.now, external_values=self.before.external_values
        )


@st.composite
def policy_cases(draw: st.DrawFn) -> PluginCase:
    bodies = draw(karmada.fleets())
    before = karmada.fleet_of(bodies)
    (changed,) = karmada.fleet_of([draw(karmada.clusters(draw(st.sampled_from(before.names))))]).targets
    requests = tuple(
        msgspec.structs.replace(
            placement_request_of(draw(karmada.bindings())),
            affinity_clusters=draw(st.none() | st.frozensets(st.sampled_from(karmada.NAMES))),
            anti_affinity_clusters=draw(st.frozensets(st.sampled_from(karmada.NAMES))),
            candidates=draw(st.none() | st.frozensets(st.sampled_from(karmada.NAMES))),
        )
        for _ in range(2)
    )
    return PluginCase((requests[0], requests[1]), before, (changed,))


@st.composite
def placement_cases(draw: st.DrawFn) -> PluginCase:
    names = draw(ocm.names.filter(bool))
    before = Fleet.of([draw(ocm.clusters(name)) for name in names], now=NOON)
    requests = [
        OcmRequest(
            namespace="ns",
            name="p",
            spec=ocm.placement(draw(ocm.specs())).spec,
            now=NOON,
            placed=tuple(draw(ocm.names)),
            cel=CEL,
        )
        for _ in range(2)
    ]
    return PluginCase((requests[0], requests[1]), before, (draw(ocm.clusters(draw(st.sampled_from(names)))),))


@st.composite
def query_cases(draw: st.DrawFn) -> PluginCase:
    names = draw(ocm.names.filter(bool))
    published = {name: ExternalValue({"green": draw(st.integers(-100, 100))}) for name in names if draw(st.booleans())}
    before = Fleet.of(
        [draw(ocm.clusters(name)) for name in names],
        now=NOON,
        external_values={"AddOnPlacementScore/carbon": published},
    )
    queries = []
    for _ in range(2):
        add_on = AddOnScore(resource_name="carbon", score_name=draw(st.sampled_from(("green", "other"))))
        chosen = draw(st.lists(st.integers(0, 3), min_size=len(before), max_size=len(before)))
        counts = DecisionCounts(np.array(chosen, dtype=np.int64), {})
        placed = tuple(draw(ocm.names))
        known = st.none() | st.just(counts)
        queries.append(ScoreQuery(ScoreCoordinate(type="AddOn", add_on=add_on), placed, (), draw(known)))
    return PluginCase((queries[0], queries[1]), before, (draw(ocm.clusters(draw(st.sampled_from(names)))),))


@st.composite
def pod_cases(draw: st.DrawFn) -> PluginCase:
    nodes, running = draw(pods.clusters())
    snapshot = NodeSnapshot.of(nodes, running)
    more = NodeSnapshot.of(nodes, [*running, draw(pods.random_pod("more", f"n{draw(st.integers(0, len(nodes) - 1))}"))])
    changed = [new for old, new in zip(snapshot.nodes, more.nodes, strict=True) if len(new.pods) != len(old.pods)]
    requests = [pod_request_for(draw(pods.random_pod(name)), more) for name in ("p", "q")]
    return PluginCase((requests[0], requests[1]), snapshot.nodes, tuple(changed), is_load=True)


FILTERS: list[tuple[str, Any, st.SearchStrategy[PluginCase]]] = [
    ("filters", filters, policy_cases()),
    ("placement_filters", placement_filters, placement_cases()),
    ("node_filters", node_filters, pod_cases()),
]
SCORES: list[tuple[str, Any, st.SearchStrategy[PluginCase]]] = [
    ("scores", scores, policy_cases()),
    ("prioritizers", prioritizers, query_cases()),
    ("node_scores", node_scores, pod_cases()),
]


def params(registries: list[tuple[str, Any, st.SearchStrategy[PluginCase]]]) -> list[Any]:
    return [
        pytest.param(plugin, cases, id=f"{kind}-{plugin.name}")
        for kind, registry, cases in registries
        for plugin in registry.values()
    ]


def result_or_fault(compute: Callable[..., Any], *of: Any) -> list[Any] | str:
    """An invalid Placement must be refused by every form with the same words."""
    try:
        return list(compute(*of))
    except Misconfigured as fault:
        return fault.message


def check_each(plugin: FilterPlugin[Any, Any], request: Any, fleet: Fleet[Any]) -> list[bool]:
    named = None if plugin.targets is None else set(plugin.targets(request))
    check = plugin.prepare(request, fleet)
    return [(named is not None and target.name not in named) or check(target) is None for target in fleet]


def score_each(plugin: ScorePlugin[Any, Any], request: Any, fleet: Fleet[Any]) -> list[int]:
    """The final scores when all targets are feasible."""
    if plugin.skips is not None and plugin.skips(request):
        return [0] * len(fleet)
    named = None if plugin.targets is None else set(plugin.targets(request))
    score = plugin.prepare(request, fleet)
    raw = [score(target) if named is None or target.name in named else 0 for target in fleet]
    final = np.array(raw, dtype=np.int64) if plugin.normalize is None else plugin.normalize(np.array(raw))
    return [int(one) for one in final]


EXAMPLES = settings(
    max_examples=15 * EFFORT,
    deadline=None,
    derandomize=EFFORT == 1,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@pytest.mark.parametrize(("plugin", "cases"), params(FILTERS))
def test_rule_and_array_form_of_a_filter_agree(
    plugin: FilterPlugin[Any, Any], cases: st.SearchStrategy[PluginCase]
) -> None:
    @EXAMPLES
    @given(cases)
    def agree(case: PluginCase) -> None:
        for request in case.requests:
            by_rule = result_or_fault(check_each, plugin, request, case.fleet())
            assert result_or_fault(filter_mask, plugin, request, case.fleet()) == by_rule
            if plugin.array is not None:
                assert result_or_fault(plugin.array, request, case.fleet()) == by_rule
            if plugin.skips is not None and plugin.skips(request):
                assert by_rule == [True] * len(case.before)

    agree()


@pytest.mark.parametrize(("plugin", "cases"), params(SCORES))
def test_rule_and_array_form_of_a_score_agree(
    plugin: ScorePlugin[Any, Any], cases: st.SearchStrategy[PluginCase]
) -> None:
    @EXAMPLES
    @given(cases)
    def agree(case: PluginCase) -> None:
        for request in case.requests:
            assert final_scores(plugin, request, case.fleet()) == score_each(plugin, request, case.fleet())

    agree()


@pytest.mark.parametrize(("plugin", "cases"), params(FILTERS))
def test_filter_reads_only_what_it_declares_and_is_evaluated_again_for_changed_targets(
    plugin: FilterPlugin[Any, Any], cases: st.SearchStrategy[PluginCase]
) -> None:
    @EXAMPLES
    @given(cases)
    def agree(case: PluginCase) -> None:
        for request in case.requests:  # fill the cache with the results of both requests
            result_or_fault(filter_mask, plugin, request, case.before)
        after = case.after()
        for request in case.requests:
            by_rule = result_or_fault(check_each, plugin, request, case.fleet())
            assert result_or_fault(filter_mask, plugin, request, after) == by_rule

    agree()


@pytest.mark.parametrize(("plugin", "cases"), params(SCORES))
def test_score_reads_only_what_it_declares_and_is_evaluated_again_for_changed_targets(
    plugin: ScorePlugin[Any, Any], cases: st.SearchStrategy[PluginCase]
) -> None:
    @EXAMPLES
    @given(cases)
    def agree(case: PluginCase) -> None:
        for request in case.requests:  # fill the cache with the results of both requests
            final_scores(plugin, request, case.before)
        after = case.after()
        for request in case.requests:
            assert final_scores(plugin, request, after) == score_each(plugin, request, case.fleet())

    agree()
