"""Whatever happens, the rescheduler sends nobody to and fro."""

import asyncio
from datetime import timedelta
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from simulate.scenery import DEPLOYMENTS, deployment, fleet, in_a_member
from trimtab.client.client import Resource
from trimtab.decide.reschedule.history import SAME_WAY_BACK
from trimtab.simulate.member import Member

FEWER = settings(max_examples=3, deadline=None, derandomize=True)
CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")

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
