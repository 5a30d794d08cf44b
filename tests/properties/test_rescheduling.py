"""Whatever happens: no budget is overspent, nobody is sent to and fro, preemption ends, drains end or say why not."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from server.asgi import Wire, with_wire
from server.test_eviction import BUDGETS as OUR_BUDGETS
from server.test_eviction import CUSTOM, PDBS, PODS, SELECTOR, evict, merge, pod, seen, stood
from simulate.scenery import BUDGETS, CLASSES, DEPLOYMENTS, deployment, fleet, in_a_member, workload
from trimtab.client.client import Resource
from trimtab.clock import LoopClock
from trimtab.decide.reschedule.history import SAME_WAY_BACK
from trimtab.runtime.drain import Drain, Options
from trimtab.simulate.member import Member

FEW = settings(max_examples=12, deadline=None, derandomize=True)
FEWER = settings(max_examples=3, deadline=None, derandomize=True)
CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")

acts = st.lists(
    st.one_of(
        st.tuples(st.just("evict"), st.lists(st.integers(0, 7), min_size=1, max_size=8)),
        st.tuples(st.just("ill"), st.integers(0, 7)),
        st.tuples(st.just("wait"), st.integers(1, 400)),
        st.tuples(st.just("count"), st.none()),
    ),
    min_size=3,
    max_size=12,
)


@FEW
@given(acts, st.lists(st.integers(1, 7), min_size=1, max_size=2), st.integers(1, 3), st.integers(60, 900))
def test_no_budget_is_ever_overspent_not_by_one(script: list[Any], desired: list[int], most: int, period: int) -> None:
    """Concurrent evictors, pods that fall ill, controllers that look late, several budgets and a rate over all."""
    granted: list[datetime] = []

    async def story(wire: Wire) -> None:
        for number in range(8):
            await pod(wire, f"web-{number}")
        for number, floor in enumerate(desired):
            body = {"metadata": {"name": f"b{number}"}, "spec": {"minAvailable": floor, "selector": SELECTOR}}
            await wire("POST", PDBS, body)
            await merge(wire, f"{PDBS}/b{number}/status", {"status": stood(8, floor)})
        rate = {"disruptions": most, "period": f"{period}s"}
        spec = {"target": "Pods", "selector": SELECTOR, "rate": rate}
        await wire("POST", OUR_BUDGETS, {**CUSTOM, "metadata": {"name": "calm"}, "spec": spec})
        await merge(wire, f"{OUR_BUDGETS}/calm/status", {"status": stood(8, 0)})
        for act, what in script:
            if act == "evict":
                before = await healthy(wire)
                answers = await asyncio.gather(*(evict(wire, f"web-{number}") for number in what))
                after = await healthy(wire)
                assert before == after or after >= max(desired)
                granted.extend([LoopClock().now()] * (before - after))
                assert {answer.status for answer in answers} <= {201, 404, 429}
            elif act == "ill":
                ill = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
                await wire("PATCH", f"{PODS}/web-{what}/status", ill, content_type="application/merge-patch+json")
            elif act == "count":
                for number, floor in enumerate(desired):
                    now = await healthy(wire)
                    counted = stood(now, floor) | {"disruptionsAllowed": max(0, now - floor)}
                    await merge(wire, f"{PDBS}/b{number}/status", {"status": {**counted, "disruptedPods": None}})
            else:
                await asyncio.sleep(what)

    with_wire(story, several_budgets=True, collects=False)
    for at in granted:
        assert sum(at - timedelta(seconds=period) < other <= at for other in granted) <= most


async def healthy(wire: Wire) -> int:
    found = (await seen(wire, PODS))["items"]
    return sum(
        not one["metadata"].get("deletionTimestamp")
        and any(c["type"] == "Ready" and c["status"] == "True" for c in one["status"]["conditions"])
        for one in found
    )


apps = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from(["300m", "700m", "1500m"]), st.booleans()), min_size=2, max_size=4
)


@FEWER
@given(apps, st.integers(0, 3))
def test_no_owner_is_sent_to_and_fro(sizes: list[tuple[int, str, bool]], troubled: int) -> None:
    async def story(member: Member) -> None:
        nodes = list(member.kubelets.machines)
        for number, (replicas, cpu, picky) in enumerate(sizes):
            wish = {"weight": 50, "preference": {"matchExpressions": [hostname(nodes[number % len(nodes)])]}}
            affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
            more: dict[str, Any] = {"affinity": affinity} if picky else {}
            await member.client.create(DEPLOYMENTS, deployment(f"app{number}", replicas, cpu=cpu, **more))
        for node in nodes[:troubled]:
            await member.cordon(node)
            await asyncio.sleep(200)
            await member.cordon(node, closed=False)
        wanted = ["UnderutilisedNodes", "BetterAffinity", "HardViolation", "Consolidate"]
        text = yaml.safe_dump({"preset": "aggressive", "objectives": [{"name": name} for name in wanted]})
        metadata = {"name": "trimtab-rescheduler", "namespace": "kube-system"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"rescheduler.yaml": text}}
        await member.client.create(CONFIGS, body)
        await asyncio.sleep(3 * 3600)
        history = member.rescheduler._history
        moves = history.moves if history is not None else ()
        for move in moves:
            backwards = [
                other
                for other in moves
                if other.owner == move.owner
                and other.source == move.target
                and other.target == move.source
                and timedelta(0) < other.at - move.at < SAME_WAY_BACK
            ]
            assert all(other.gain >= 10 for other in backwards)

    in_a_member(story, fleet(nodes=4))


def hostname(node: str) -> dict[str, Any]:
    return {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}


@FEWER
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from(["500m", "1", "2"]), st.integers(0, 3)), min_size=3, max_size=5
    )
)
def test_preemption_comes_to_an_end(sizes: list[tuple[int, str, int]]) -> None:
    async def story(member: Member) -> None:
        for level in range(4):
            body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"p{level}"}}
            await member.client.create(CLASSES, {**body, "value": 100 * level})
        for number, (replicas, cpu, level) in enumerate(sizes):
            made = deployment(f"app{number}", replicas, cpu=cpu, priorityClassName=f"p{level}")
            await member.client.create(DEPLOYMENTS, made)
            await asyncio.sleep(30)
        await asyncio.sleep(1800)
        before = {one.metadata.uid for one in member.pods}
        await asyncio.sleep(3600)
        assert {one.metadata.uid for one in member.pods} == before

    in_a_member(story, fleet(nodes=2, cpu="4"))


@FEWER
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2)), min_size=1, max_size=4))
def test_a_drained_node_ends_empty_or_says_what_blocks_it(sizes: list[tuple[int, int]]) -> None:
    async def story(member: Member) -> None:
        for number, (replicas, spare) in enumerate(sizes):
            await member.client.create(DEPLOYMENTS, deployment(f"app{number}", replicas))
            body = {"maxUnavailable": spare, "selector": {"matchLabels": {"app": f"app{number}"}}}
            await member.client.create(BUDGETS, workload("PodDisruptionBudget", f"app{number}", body, "policy/v1"))
        await asyncio.sleep(10)
        steps = await Drain(member.client, "one-node-1", clock=LoopClock(), options=Options(timeout=600.0)).run()
        left = {f"{one.namespace}/{one.name}" for one in member.pods if one.spec.node_name == "one-node-1"}
        named = {step.pod: step for step in steps if step.state == "Failed"}
        assert left == set(named)
        assert all("healthy pods" in step.message for step in named.values())

    in_a_member(story)
