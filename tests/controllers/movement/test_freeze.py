"""While moves are frozen nothing moves, whatever the cause; afterwards everything goes on."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from builders import NOON, binding
from move_helpers import MoveScenario, divided, run_scenario
from views import FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.disruption import DisruptionPolicy, DisruptionPolicySpec, Freeze
from trimtab.api.kinds.work import GracefulEvictionTask, HeldReplicas, UnhealthyCluster
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.cli.commands.drain_cluster import start_drain
from trimtab.client.client import Resource
from trimtab.client.freeze import find_disruption_policy, freeze_moves, thaw_moves
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.freeze import has_freeze_changed, moving_bindings
from trimtab.decide.freeze import freeze_refusal

BEFORE, AFTER = {"m1": 2, "m2": 2}, {"m2": 4}
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
LONG = 900
Cause = Callable[[MoveScenario], Awaitable[None]]


async def place(scene: MoveScenario) -> None:
    await scene.create_deployment("web", replicas=4)
    await scene.create_policy(divided(("m1", 1), ("m2", 1)))
    await scene.wait_until_settled("web", BEFORE)


async def begin_drain(scene: MoveScenario) -> None:
    await start_drain(scene.client, "m1")


async def roll_out_a_bad_policy(scene: MoveScenario) -> None:
    await scene.set_placement(divided(("m2", 1)))


async def set_taint(scene: MoveScenario) -> None:
    await scene.set_taints("m1", "broken:NoExecute")


@pytest.mark.parametrize(
    ("profile", "cause"),
    [
        (TRIMTAB, begin_drain),
        (TRIMTAB, roll_out_a_bad_policy),
        (TRIMTAB, set_taint),
        (UPSTREAM, roll_out_a_bad_policy),
        (UPSTREAM, set_taint),
    ],
)
def test_nothing_moves_while_frozen_and_the_move_begins_after_the_thaw(profile: Profile, cause: Cause) -> None:
    async def act(scene: MoveScenario) -> None:
        await place(scene)
        await freeze_moves(scene.client, "a bad policy is out")
        await cause(scene)
        await asyncio.sleep(LONG)
        assert scene.ready_pods() == BEFORE
        assert await scene.placement_of() == BEFORE
        assert await scene.list_moves() == []
        if profile is TRIMTAB:
            binding = await scene.get_binding()
            stalled = next(c for c in binding.status.conditions if c.type == "Stalled")
            assert "all moves are frozen since" in stalled.message
            assert "(a bad policy is out)" in stalled.message
        await thaw_moves(scene.client)
        await scene.wait_until_settled("web", AFTER)

    run_scenario(act, profile=profile)


def test_scaling_goes_on_while_frozen() -> None:
    async def act(scene: MoveScenario) -> None:
        await place(scene)
        await freeze_moves(scene.client, "")
        await scale(scene, 6)
        await scene.wait_until_settled("web", {"m1": 3, "m2": 3})
        await scale(scene, 2)
        await scene.wait_until_settled("web", {"m1": 1, "m2": 1})

    run_scenario(act)


def test_move_in_progress_keeps_old_and_new_replicas_until_the_thaw() -> None:
    async def act(scene: MoveScenario) -> None:
        await place(scene)
        await start_drain(scene.client, "m1")
        await asyncio.sleep(0.1)
        assert (await scene.get_binding()).status.holds
        await freeze_moves(scene.client, "")
        await asyncio.sleep(LONG)
        assert scene.ready_pods() == {"m1": 2, "m2": 4}
        await thaw_moves(scene.client)
        await scene.wait_until_settled("web", AFTER)

    run_scenario(act)


def test_freeze_names_who_and_when_and_thaw_removes_it() -> None:
    async def act(scene: MoveScenario) -> None:
        await thaw_moves(scene.client)
        await freeze_moves(scene.client, "why")
        policy = await find_disruption_policy(scene.client)
        assert policy is not None
        assert policy.spec.freeze is not None
        assert policy.spec.freeze.reason == "why"
        assert policy.spec.freeze.since is not None
        await thaw_moves(scene.client)
        policy = await find_disruption_policy(scene.client)
        assert policy is not None
        assert policy.spec.freeze is None

    run_scenario(act)


def test_refusal_says_since_when_by_whom_and_how_to_end_it() -> None:
    freeze = Freeze(since=datetime(2030, 1, 1, tzinfo=UTC), by="ada", reason="wrong weights")
    refusal = freeze_refusal(DisruptionPolicy(spec=DisruptionPolicySpec(freeze=freeze)))
    assert refusal is not None
    expected = "all moves are frozen since 2030-01-01 00:00:00Z by ada (wrong weights); `trimtab thaw` releases them"
    assert refusal.message == expected
    assert freeze_refusal(None) is None
    assert freeze_refusal(DisruptionPolicy()) is None


def test_only_the_start_and_the_end_of_a_freeze_wake_bindings() -> None:
    frozen = DisruptionPolicy(spec=DisruptionPolicySpec(freeze=Freeze()))
    other = DisruptionPolicy(spec=DisruptionPolicySpec(freeze=Freeze(reason="another")))
    assert has_freeze_changed(None, frozen)
    assert has_freeze_changed(frozen, DisruptionPolicy())
    assert not has_freeze_changed(frozen, other)
    assert not has_freeze_changed(None, DisruptionPolicy())


async def scale(scene: MoveScenario, replicas: int) -> None:
    await scene.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": replicas}})


def test_a_thaw_wakes_everything_that_waits_or_has_a_move_in_progress() -> None:
    task, hold = GracefulEvictionTask(from_cluster="m1"), HeldReplicas(cluster="m1", replicas=1)
    unhealthy = (UnhealthyCluster(cluster_name="m1"),)
    waiting = [
        binding("held", clusters={"m1": 1}, status_holds=(hold,)),
        binding("evicted", clusters={"m1": 1}, graceful_eviction_tasks=(task,)),
        binding("unhealthy", clusters={"m1": 1}, status_unhealthy_clusters=unhealthy),
        binding_moves.with_stalled_condition(binding("stalled", clusters={"m1": 1}), "MoveBlocked", "frozen", NOON),
    ]
    view = FakeView([*waiting, binding("settled", clusters={"m1": 1})])
    frozen = DisruptionPolicy(spec=DisruptionPolicySpec(freeze=Freeze()))
    assert set(moving_bindings(frozen, DisruptionPolicy(), view)) == {key_of(one) for one in waiting}
    assert list(moving_bindings(frozen, frozen, view)) == []
