import asyncio

import pytest

from simulate.fixtures import JOBS, in_a_member, job
from trimtab.simulate.member import Member
from trimtab.simulate.workloads import pod_gc


def test_only_so_many_ended_pods_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_gc, "MOST", 5)

    async def story(member: Member) -> None:
        await member.client.create(JOBS, job(spec={"completions": 8, "parallelism": 2}))
        await asyncio.sleep(60)
        assert len(member.pods) == 5

    in_a_member(story)
