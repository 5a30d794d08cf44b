"""Faults of simulated members by request."""

import asyncio

import msgspec
import pytest
from move_helpers import MoveScenario, run_scenario

from trimtab.errors import BadRequest, NotFound
from trimtab.server.request.messages import Request
from trimtab.simulate.faults import MAX_WORKLOAD_FAULTS, FaultRequest, action_of, cluster_of_path


def test_cluster_goes_down_and_recovers() -> None:
    async def act(scene: MoveScenario) -> None:
        faults, member = scene.fleet.faults, scene.world["m1"]
        assert "m1 fails" in faults.inject("m1", FaultRequest(state="down"))
        assert not member.is_reachable
        assert faults.inject("m1", FaultRequest(state="recover")) == "m1 recovers"
        assert member.is_reachable
        faults.inject("m1", FaultRequest(state="partition"))
        assert not member.is_reachable

    run_scenario(act, members=1)


def test_flapping_cluster_flaps_until_it_recovers() -> None:
    async def act(scene: MoveScenario) -> None:
        faults, member = scene.fleet.faults, scene.world["m1"]
        faults.inject("m1", FaultRequest(state="flapping", seconds=10))
        seen = []
        for _ in range(4):
            await asyncio.sleep(10.5 if not seen else 10)
            seen.append(member.is_reachable)
        assert seen == [True, False, True, False]
        faults.inject("m1", FaultRequest(state="recover"))
        await asyncio.sleep(25)
        assert member.is_reachable

    run_scenario(act, members=1)


def test_cluster_that_flaps_stays_down_when_it_is_taken_down() -> None:
    async def act(scene: MoveScenario) -> None:
        faults, member = scene.fleet.faults, scene.world["m1"]
        faults.inject("m1", FaultRequest(state="flapping", seconds=10))
        await asyncio.sleep(1)
        faults.inject("m1", FaultRequest(state="down"))
        await asyncio.sleep(25)
        assert not member.is_reachable

    run_scenario(act, members=1)


def test_what_fails_is_known_until_it_recovers() -> None:
    async def act(scene: MoveScenario) -> None:
        faults, seen = scene.fleet.faults, []
        faults.add_listener(seen.append)
        assert dict(faults.current) == {}
        faults.inject("m1", FaultRequest(state="down"))
        assert faults.current == {"m1": "its API server and controllers are stopped"}
        faults.inject("m1", FaultRequest(state="slow", seconds=5))
        assert faults.current == {"m1": "it responds 5 s later"}
        await scene.fleet.inject_fault("m1", False)
        assert dict(faults.current) == {}
        assert seen == ["m1"] * 3

    run_scenario(act, members=1)


def test_recovery_in_the_console_ends_every_fault() -> None:
    async def act(scene: MoveScenario) -> None:
        faults, member = scene.fleet.faults, scene.world["m1"]
        faults.inject("m1", FaultRequest(state="flapping", seconds=10))
        await scene.fleet.inject_fault("m1", False)
        await asyncio.sleep(12)
        assert member.is_reachable
        faults.inject("m1", FaultRequest(state="slow", seconds=5))
        await scene.fleet.inject_fault("m1", False)
        before = asyncio.get_running_loop().time()
        await member.client.fetch("/version")
        assert asyncio.get_running_loop().time() == before

    run_scenario(act, members=1)


def test_node_and_workload_fail_and_recover() -> None:
    async def act(scene: MoveScenario) -> None:
        faults = scene.fleet.faults
        assert faults.inject("m1", FaultRequest(state="down", node="m1-node-1")) == "node m1-node-1 of m1 fails"
        assert "recovers" in faults.inject("m1", FaultRequest(state="recover", node="m1-node-1"))
        assert faults.inject("m1", FaultRequest(state="crash", workload="default/web")) == (
            "default/web fails in m1: crash; no pod there has the label app=web yet"
        )
        assert (
            faults.inject("m1", FaultRequest(state="recover", workload="default/web")) == "default/web recovers in m1"
        )
        await asyncio.sleep(1)

    run_scenario(act, members=1)


def test_number_of_failing_workloads_is_limited() -> None:
    async def act(scene: MoveScenario) -> None:
        faults = scene.fleet.faults
        for number in range(MAX_WORKLOAD_FAULTS):
            faults.inject("m1", FaultRequest(state="crash", workload=f"a/{number}"))
        faults.inject("m1", FaultRequest(state="not-ready", workload="a/0"))
        with pytest.raises(BadRequest, match="let some recover first"):
            faults.inject("m1", FaultRequest(state="crash", workload="a/b"))
        faults.inject("m1", FaultRequest(state="recover", workload="a/0"))
        faults.inject("m1", FaultRequest(state="crash", workload="a/b"))

    run_scenario(act, members=1)


@pytest.mark.parametrize(
    ("cluster", "fault", "error", "message"),
    [
        ("x", FaultRequest(state="down"), NotFound, "cluster x is not simulated"),
        ("m1", FaultRequest(state="tired"), BadRequest, "it must be one of down, partition"),
        ("m1", FaultRequest(state="slow", seconds=-1), BadRequest, "seconds is -1"),
        ("m1", FaultRequest(state="flapping", seconds=1e-9), BadRequest, "seconds is 1e-09; it must be 0.1 to 3600"),
        ("m1", FaultRequest(state="crash", workload="a/" + "x" * 1000), BadRequest, "more than 512 characters"),
        ("m1", FaultRequest(state="x" * 1000), BadRequest, "more than 512 characters"),
        ("m1", FaultRequest(state="down", node="x"), NotFound, "m1 has no node x; nodes: m1-node-1"),
        ("m1", FaultRequest(state="slow", node="m1-node-1"), BadRequest, "one of down, recover"),
        ("m1", FaultRequest(state="down", workload="a/b"), BadRequest, "one of not-ready"),
    ],
)
def test_wrong_faults_are_refused(cluster: str, fault: FaultRequest, error: type[Exception], message: str) -> None:
    async def act(scene: MoveScenario) -> None:
        with pytest.raises(error, match=message):
            scene.fleet.faults.inject(cluster, fault)

    run_scenario(act, members=1)


def test_requests_need_the_permission_to_update_the_cluster() -> None:
    request = Request("POST", "/simulation/faults/m1", {}, {})
    action = action_of(request)
    assert action is not None
    assert (action.verb, action.resource, action.name) == ("update", "clusters", "m1")
    assert cluster_of_path("/simulation/faults/a/b") == ""
    assert action_of(Request("POST", "/simulation/other", {}, {})) is None


def test_body_that_is_not_a_fault_is_refused() -> None:
    async def act(scene: MoveScenario) -> None:
        request = Request("POST", "/simulation/faults/m1", {}, {}, body=b"{}")
        with pytest.raises(BadRequest, match="the body is not a fault"):
            scene.fleet.faults.handle(request)
        request = Request("POST", "/simulation/faults/m1", {}, {}, body=msgspec.json.encode({"state": "recover"}))
        assert scene.fleet.faults.handle(request).code == 200

    run_scenario(act, members=1)
