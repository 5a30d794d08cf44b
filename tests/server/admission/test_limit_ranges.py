import pytest

from simulate.fixtures import PODS, run_in_member, workload
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.errors import Forbidden
from trimtab.simulate.member import SimulatedMember

CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
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


def test_a_pod_says_which_defaults_it_got() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_range(member, type="Container", defaultRequest={"cpu": "100m"}, default={"cpu": "500m"})
        made = await member.client.create(PODS, pod("bare"))
        assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
            "LimitRanger plugin set: cpu request for container main; cpu limit for container main"
        )
        made = await member.client.create(PODS, pod("own", {"limits": {"cpu": "300m"}}))
        assert "kubernetes.io/limit-ranger" not in made["metadata"].get("annotations", {})

    run_in_member(scenario)


def test_messages_have_the_quantities_of_the_container() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_range(member, type="Container", min={"cpu": "50m"}, maxLimitRequestRatio={"memory": "2"})
        with pytest.raises(Forbidden, match="minimum cpu usage per Container is 50m, but request is 10m, "):
            await member.client.create(PODS, pod("small", {"requests": {"cpu": "0.010", "memory": "0"}}))
        with pytest.raises(Forbidden, match="memory max limit to request ratio per Container is 2, but no limit"):
            await member.client.create(PODS, pod("open", {"requests": {"cpu": "60m", "memory": "1Mi"}}))

    run_in_member(scenario)


def test_sidecars_count_beside_the_containers_of_a_pod() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_range(member, type="Pod", max={"memory": "3Gi"})
        body = pod("p", {"limits": {"memory": "2Gi"}})
        sidecar = {"name": "side", "image": "app:1", "resources": {"limits": {"memory": "2Gi"}}}
        body["spec"]["initContainers"] = [{**sidecar, "restartPolicy": "Always"}]
        with pytest.raises(Forbidden, match="maximum memory usage per Pod is 3Gi, but limit is 4Gi"):
            await member.client.create(PODS, body)
        body["spec"]["initContainers"] = [sidecar]
        await member.client.create(PODS, body)

    run_in_member(scenario)


def test_a_claim_must_not_grow_beyond_the_range() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_range(member, type="PersistentVolumeClaim", max={"storage": "2Gi"})
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await member.client.create(CLAIMS, workload("PersistentVolumeClaim", "c", spec, "v1"))
        found = await member.client.get(CLAIMS, "default", "c")
        found["status"] = {"phase": "Bound"}
        found = await member.client.replace(CLAIMS, found, subresource="status")
        found["spec"]["resources"]["requests"]["storage"] = "3Gi"
        with pytest.raises(
            Forbidden, match="maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
        ):
            await member.client.replace(CLAIMS, found)

    run_in_member(scenario)
