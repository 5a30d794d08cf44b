import asyncio

import pytest

from simulate.fixtures import JOBS, in_a_member, job
from trimtab.simulate.member import Member
from trimtab.simulate.workloads import pod_gc


def test_terminated_pods_beyond_the_limit_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_gc, "MOST", 5)

    async def scenario(member: Member) -> None:
        await member.client.create(JOBS, job(spec={"completions": 8, "parallelism": 2}))
        await asyncio.sleep(60)
        assert len(member.pods) == 5

    in_a_member(scenario)
