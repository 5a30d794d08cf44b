"""Charges of evictions that did not happen, and evictions without a charge."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from builders import NOON
from pod_builders import pod

from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Condition
from trimtab.decide.pods.budgets.unused_charges import (
    UNUSED_AFTER,
    uncharged_evictions,
    with_uncharged,
    without_unused_charges,
)

LATER = NOON + UNUSED_AFTER
EVICTED = Condition(type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI")


def budget(**spec: Any) -> DisruptionBudget:
    at = NOON.isoformat()
    status = {
        "disruptedPods": {"web-1": at},
        "inFlight": [{"object": "web-1", "replicas": 1, "since": at}],
        "rate": {
            "inWindow": 2,
            "limit": 2,
            "recent": [{"object": "web-1", "at": at}, {"object": "web-1", "at": at}],
        },
    }
    spec = {"target": "Pods", "rate": {"disruptions": 2, "period": "1h"}, **spec}
    return msgspec.convert(
        {"metadata": {"name": "web"}, "spec": spec, "status": status}, DisruptionBudget, strict=False
    )


def web(name: str = "web-1", *, ready: bool = True, deleted: bool = False, created: Any = None, **more: Any) -> Pod:
    one = pod(name)
    conditions = (Condition(type="Ready", status="True" if ready else "False"), *more.get("conditions", ()))
    metadata = one.metadata.but(
        deletion_timestamp=NOON if deleted else None, creation_timestamp=created or NOON - timedelta(days=1)
    )
    return one.but(metadata=metadata, status=one.status.but(conditions=conditions))


def test_charge_is_given_back_when_the_pod_stays() -> None:
    status = without_unused_charges(budget(), [web()], LATER)
    assert (status.disrupted_pods, status.in_flight) == ({}, ())
    assert status.rate is not None
    assert (status.rate.in_window, len(status.rate.recent)) == (1, 1)  # the earlier eviction of that name happened


@pytest.mark.parametrize(
    ("pods", "now"),
    [
        ([web()], LATER - timedelta(seconds=1)),
        ([web(deleted=True)], LATER),
        ([web(created=NOON + timedelta(seconds=1))], LATER),
        ([], LATER),
    ],
    ids=["too early", "terminating", "replaced", "gone"],
)
def test_charge_of_an_eviction_that_may_have_happened_is_kept(pods: list[Pod], now: Any) -> None:
    assert without_unused_charges(budget(), pods, now) == budget().status


def test_eviction_without_a_charge_counts_against_the_rate() -> None:
    evicted = web("web-2", deleted=True, conditions=(EVICTED,))
    assert uncharged_evictions(budget(), [web(), evicted]) == [evicted]
    status = with_uncharged(budget().status, [evicted], NOON)
    assert status.rate is not None
    assert (status.rate.in_window, status.rate.recent[-1].object) == (3, "web-2")


@pytest.mark.parametrize(
    ("evicted", "spec"),
    [
        (web("web-1", deleted=True, conditions=(EVICTED,)), {}),
        (web("web-2", deleted=True), {}),
        (web("web-2", deleted=True, ready=False, conditions=(EVICTED,)), {}),
        (web("web-2", deleted=True, conditions=(EVICTED,)), {"reasons": ["Drain"]}),
        (web("web-2", conditions=(EVICTED,)), {}),
        (web("web-2", deleted=True, conditions=(EVICTED.but(reason="PreemptionByScheduler"),)), {}),
        (web("web-2", deleted=True, conditions=(EVICTED.but(status="False"),)), {}),
        (web("web-2", deleted=True, conditions=(EVICTED.but(type="PodScheduled"),)), {}),
    ],
    ids=[
        "charged",
        "deleted",
        "not ready",
        "certain reasons",
        "not ending",
        "preempted",
        "not evicted after all",
        "another condition",
    ],
)
def test_other_pods_that_end_are_not_counted(evicted: Pod, spec: dict[str, Any]) -> None:
    assert uncharged_evictions(budget(**spec), [evicted]) == []


def test_a_budget_that_is_not_up_to_date_counts_no_uncharged_evictions() -> None:
    """Its status may be that of another selector."""
    current = budget()
    changed = current.but(metadata=current.metadata.but(generation=current.status.observed_generation + 1))
    assert uncharged_evictions(changed, [web("web-2", deleted=True, conditions=(EVICTED,))]) == []


def test_a_pod_created_in_the_second_of_the_charge_may_be_the_charged_one() -> None:
    assert without_unused_charges(budget(), [web(created=NOON)], LATER).disrupted_pods == {}


def test_without_a_rate_there_is_nothing_to_count() -> None:
    status = budget().status.but(rate=None)
    assert with_uncharged(status, [web("web-2")], NOON) is status
