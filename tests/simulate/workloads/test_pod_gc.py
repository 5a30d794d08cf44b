import asyncio

import pytest

from simulate.fixtures import JOBS, job, run_in_member
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.workloads import pod_gc


def test_terminated_pods_beyond_the_limit_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_gc, "MAX_TERMINATED_PODS", 5)

    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(JOBS, job(spec={"completions": 8, "parallelism": 2}))
        await asyncio.sleep(60)
        assert len(member.pods) == 5

    run_in_member(scenario)
