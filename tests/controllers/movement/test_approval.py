"""Voluntary moves wait for a person where an approval is required; failovers never do."""

import asyncio
from typing import Any

import pytest
from builders import binding, cluster_policy
from move_helpers import MoveScenario, divided, run_scenario
from views import FakeView

from trimtab.api.kinds.disruption import DisruptionPolicy, DisruptionPolicySpec
from trimtab.api.kinds.policy import PropagationPolicy
from trimtab.api.value import Meta
from trimtab.cli.commands.drain_cluster import abort_drain, start_drain
from trimtab.client.approvals import approve_move
from trimtab.controllers import well_known
from trimtab.controllers.movement.approval import approval_text, missing_approval, required_by
from trimtab.controllers.well_known import APPROVED_MOVE
from trimtab.errors import InputError

BEFORE, AFTER = {"m1": 2, "m2": 2}, {"m2": 4}
APPROVAL = {"approval": "Required"}
POLICY = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", "metadata": {"name": "default"}}


async def place(scene: MoveScenario) -> None:
    await scene.create_deployment("web", replicas=4)
    await scene.create_policy(divided(("m1", 1), ("m2", 1)))
    await scene.wait_until_settled("web", BEFORE)


async def require_approval(scene: MoveScenario, source: str) -> None:
    if source == "budget":
        await scene.create_budget(**APPROVAL)
    elif source == "settings":
        await scene.create({**POLICY, "spec": APPROVAL})
    else:
        await scene.patch(
            PropagationPolicy, "pp", {"metadata": {"annotations": {"trimtab.dev/approval": "Required"}}}, "default"
        )
    await asyncio.sleep(5)


@pytest.mark.parametrize("source", ["budget", "settings", "policy"])
def test_drain_waits_for_the_approval_and_then_moves_replacement_first(source: str) -> None:
    async def act(scene: MoveScenario) -> None:
        await place(scene)
        await require_approval(scene, source)
        scene.record_lowest_ready("web")
        await start_drain(scene.client, "m1")
        await asyncio.sleep(300)
        binding = await scene.get_binding()
        assert await scene.placement_of() == BEFORE
        assert binding.status.pending_approval is not None
        assert binding.status.pending_approval.cause == "Drain"
        stalled = next(c for c in binding.status.conditions if c.type == "Stalled")
        assert stalled.message.endswith("requires an approval: trimtab approve deployment/web")
        assert await scene.list_moves() == []
        assert await approve_move(scene.client, binding) == "Drain m2=4"
        await scene.wait_until_settled("web", AFTER)
        done = await scene.get_binding()
        assert done.status.pending_approval is None
        assert APPROVED_MOVE not in done.metadata.annotations
        assert scene.lowest_ready["web"] == 4

    run_scenario(act)


def test_approval_releases_one_move_and_not_the_next_equal_one() -> None:
    async def act(scene: MoveScenario) -> None:
        await place(scene)
        await require_approval(scene, "budget")
        await start_drain(scene.client, "m1")
        await scene.wait_until(lambda: is_waiting(scene))
        await approve_move(scene.client, await scene.get_binding())
        await scene.wait_until_settled("web", AFTER)
        await abort_drain(scene.client, "m1")
        await scene.create_rebalancer("web")
        await scene.wait_until(lambda: is_waiting(scene))
        await approve_move(scene.client, await scene.get_binding())
        await scene.wait_until_settled("web", BEFORE)
        await start_drain(scene.client, "m1")
        await asyncio.sleep(120)
        assert await scene.placement_of() == BEFORE

    run_scenario(act)


async def is_waiting(scene: MoveScenario) -> bool:
    return (await scene.get_binding()).status.pending_approval is not None


def test_approval_of_another_move_releases_nothing() -> None:
    async def act(scene: MoveScenario) -> None:
        await place(scene)
        await require_approval(scene, "budget")
        await start_drain(scene.client, "m1")
        await scene.wait_until(lambda: is_waiting(scene))
        other: Any = {"metadata": {"annotations": {APPROVED_MOVE: approval_text("Drain", {"m2": 3, "m3": 1})}}}
        await scene.patch(type(await scene.get_binding()), "web-deployment", other, "default")
        await asyncio.sleep(120)
        assert await scene.placement_of() == BEFORE

    run_scenario(act)


def test_withdrawn_move_waits_no_more() -> None:
    async def act(scene: MoveScenario) -> None:
        await place(scene)
        await require_approval(scene, "budget")
        await start_drain(scene.client, "m1")
        await scene.wait_until(lambda: is_waiting(scene))
        await abort_drain(scene.client, "m1")
        await asyncio.sleep(60)
        binding = await scene.get_binding()
        assert binding.status.pending_approval is None
        with pytest.raises(InputError, match="has no move that waits"):
            await approve_move(scene.client, binding)

    run_scenario(act)


def test_failover_needs_no_approval() -> None:
    async def act(scene: MoveScenario) -> None:
        await place(scene)
        await require_approval(scene, "settings")
        await scene.set_taints("m1", "broken:NoExecute")
        await scene.wait_until_settled("web", AFTER)

    run_scenario(act)


def test_settings_object_accepts_the_field() -> None:
    async def act(scene: MoveScenario) -> None:
        await require_approval(scene, "settings")
        assert (await scene.get(DisruptionPolicy, "default")).spec.approval == "Required"

    run_scenario(act)


@pytest.mark.parametrize("annotation", [{"trimtab.dev/approval": "Required"}, {"trimtab.dev/approval": "None"}, {}])
def test_a_cluster_wide_policy_requires_approvals_where_it_says_so(annotation: dict[str, str]) -> None:
    policy = cluster_policy()
    policy = policy.but(metadata=policy.metadata.but(annotations=annotation))
    subject = binding(clusters={"m1": 2})
    subject = subject.but(metadata=subject.metadata.but(annotations={well_known.CPP_NAME: "cpp"}))
    expected = "policy cpp" if "Required" in annotation.values() else ""
    assert required_by(subject, (), FakeView([policy])) == expected


def test_a_disruption_policy_that_does_not_ask_for_approvals_requires_none() -> None:
    settings = DisruptionPolicy(metadata=Meta(name="default"))
    assert required_by(binding(clusters={"m1": 2}), (), FakeView([settings])) == ""


def test_the_refusal_names_the_command_with_the_namespace() -> None:
    settings = DisruptionPolicy(metadata=Meta(name="default"), spec=DisruptionPolicySpec(approval="Required"))
    refusal = missing_approval(binding(clusters={"m1": 2}), "Drain", {"m2": 2}, (), FakeView([settings]))
    assert refusal is not None
    assert refusal.message == "the DisruptionPolicy requires an approval: trimtab approve deployment/web -n demo"
