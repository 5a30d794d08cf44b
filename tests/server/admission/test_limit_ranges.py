import pytest

from simulate.fixtures import PODS, run_in_member, workload
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.errors import Forbidden
from trimtab.simulate.member import SimulatedMember

RANGES = Resource("", "v1", "limitranges", "LimitRange")


def pod(name: str, resources: Raw | None = None) -> Raw:
    container = {"name": "main", "image": "app:1", **({"resources": resources} if resources else {})}
    return workload("Pod", name, {"containers": [container]}, "v1")


async def create_range(member: SimulatedMember, **item: object) -> None:
    await member.client.create(RANGES, workload("LimitRange", "limits", {"limits": [item]}, "v1"))


def test_a_container_gets_the_defaults_that_it_does_not_set() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_range(member, type="Container", defaultRequest={"cpu": "100m"}, default={"cpu": "500m"})
        made = await member.client.create(PODS, pod("bare"))
        assert made["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}
        made = await member.client.create(PODS, pod("own", {"limits": {"cpu": "300m"}}))
        assert made["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "300m"}, "requests": {"cpu": "300m"}}

    run_in_member(scenario)


def test_a_container_outside_of_the_range_is_forbidden() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_range(member, type="Container", min={"cpu": "50m"}, max={"cpu": "1"})
        with pytest.raises(Forbidden, match="minimum cpu usage per Container is 50m"):
            await member.client.create(PODS, pod("small", {"requests": {"cpu": "10m"}, "limits": {"cpu": "1"}}))
        with pytest.raises(Forbidden, match="maximum cpu usage per Container is 1"):
            await member.client.create(PODS, pod("large", {"requests": {"cpu": "100m"}, "limits": {"cpu": "2"}}))
        await member.client.create(PODS, pod("right", {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}))

    run_in_member(scenario)


def test_a_pod_range_counts_all_containers_together() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_range(member, type="Pod", max={"cpu": "1"})
        two = pod("two", {"limits": {"cpu": "600m"}})
        two["spec"]["containers"].append({**two["spec"]["containers"][0], "name": "second"})
        with pytest.raises(Forbidden, match="maximum cpu usage per Pod is 1"):
            await member.client.create(PODS, two)

    run_in_member(scenario)
