"""The template's status while replicas leave a cluster: what serves counts, at most what is desired."""

from collections.abc import Sequence
from typing import Any

import pytest
from builders import NOON, binding, placement, status_item

from trimtab.api.kinds.work import (
    AggregatedStatusItem,
    GracefulEvictionTask,
    HeldReplicas,
    StateBeforeMove,
    TargetCluster,
)
from trimtab.api.value import Raw
from trimtab.controllers.propagation.template_status import aggregate_while_moving
from trimtab.interpret.interpreter import Interpreter

DIVIDED = placement(replicaScheduling={"replicaSchedulingType": "Divided"})
DEPLOYMENT: Raw = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "generation": 1}}
DAEMON_SET: Raw = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "web", "generation": 1}}
CURRENT = {"observedGeneration": 1, "generation": 1, "resourceTemplateGeneration": 1}


def copy(cluster: str, ready: int, replicas: int = 4) -> AggregatedStatusItem:
    counts = {"replicas": replicas, "updatedReplicas": replicas, "unavailableReplicas": replicas - ready}
    return status_item(cluster, status=CURRENT | counts | {"readyReplicas": ready, "availableReplicas": ready})


def evicting(cluster: str = "m1", **fields: Any) -> Any:
    tasks = (GracefulEvictionTask(from_cluster=cluster, replicas=4),)
    return binding(**{"clusters": {"m2": 4}, "placement": DIVIDED, "graceful_eviction_tasks": tasks, **fields})


def status_of(
    subject: Any, items: Sequence[AggregatedStatusItem], ready: str = "m1 m2", template: Raw = DEPLOYMENT
) -> Raw:
    interpreter = Interpreter.of([])
    found = aggregate_while_moving(
        subject, items, lambda counted: interpreter.aggregate(template, counted), is_ready=ready.split().__contains__
    )
    return {key: value for key, value in (found.get("status") or {}).items() if key != "observedGeneration"}


def test_old_copy_serves_while_the_new_one_starts() -> None:
    assert status_of(evicting(), [copy("m1", 4), copy("m2", 0)]) == {
        "replicas": 4,
        "updatedReplicas": 4,
        "readyReplicas": 4,
        "availableReplicas": 4,
    }


@pytest.mark.parametrize("new", range(5))
@pytest.mark.parametrize("old", range(5))
def test_ready_replicas_are_those_of_both_copies_at_most_the_desired_number(old: int, new: int) -> None:
    found = status_of(evicting(), [copy("m1", old), copy("m2", new)])
    assert found.get("readyReplicas", 0) == min(4, old + new)
    assert found.get("readyReplicas", 0) + found.get("unavailableReplicas", 0) <= 4


def test_copy_in_a_cluster_that_does_not_answer_is_not_counted() -> None:
    assert status_of(evicting(), [copy("m1", 4), copy("m2", 1)], ready="m2")["readyReplicas"] == 1


def test_only_copy_counts_before_a_new_place_is_chosen() -> None:
    assert status_of(evicting(clusters={}, replicas=4), [copy("m1", 4)])["readyReplicas"] == 4


def test_generation_follows_the_clusters_that_stay() -> None:
    old = status_item("m1", status={"readyReplicas": 4, "observedGeneration": 1, "resourceTemplateGeneration": 0})
    template = {**DEPLOYMENT, "status": {"observedGeneration": 0}}
    found = aggregate_while_moving(
        evicting(),
        [old, copy("m2", 0)],
        lambda items: Interpreter.of([]).aggregate(template, items),
        is_ready={"m1"}.__contains__,
    )
    assert (found["status"]["observedGeneration"], found["status"]["readyReplicas"]) == (1, 4)


def test_held_replicas_and_their_replacement_are_counted_once() -> None:
    held = binding(
        clusters={"m2": 4},
        placement=DIVIDED,
        status_holds=(HeldReplicas(cluster="m1", replicas=4, since=NOON),),
        status_replacement=StateBeforeMove(before=(TargetCluster(name="m1", replicas=4),)),
    )
    assert status_of(held, [copy("m1", 4), copy("m2", 3)]) == {
        "replicas": 4,
        "updatedReplicas": 4,
        "readyReplicas": 4,
        "availableReplicas": 4,
    }


def test_pods_of_a_daemon_set_count_until_its_copy_is_gone() -> None:
    old = status_item("m1", status=CURRENT | {"desiredNumberScheduled": 3, "numberReady": 3, "numberAvailable": 3})
    new = status_item("m2", status=CURRENT | {"desiredNumberScheduled": 2, "numberReady": 0, "numberUnavailable": 2})
    subject = evicting(clusters={"m2": 0}, placement=placement())
    found = status_of(subject, [old, new], template=DAEMON_SET)
    assert (found["desiredNumberScheduled"], found["numberReady"]) == (2, 2)


def test_without_a_move_the_status_is_the_sum() -> None:
    spread = binding(clusters={"m1": 4, "m2": 4}, placement=placement())
    assert status_of(spread, [copy("m1", 4), copy("m2", 3)])["readyReplicas"] == 7
