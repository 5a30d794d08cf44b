from simulate.fixtures import fleet, run_in_member, run_in_whole_cluster
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember

COMPONENTS = Resource("", "v1", "componentstatuses", "ComponentStatus", namespaced=False)


async def health(member: SimulatedMember) -> dict[str, str]:
    found = (await member.client.list(COMPONENTS)).items
    return {one["metadata"]["name"]: one["conditions"][0]["status"] for one in found}


def test_the_components_of_a_cluster_are_healthy() -> None:
    async def scenario(member: SimulatedMember) -> None:
        assert await health(member) == {"scheduler": "True", "controller-manager": "True", "etcd-0": "True"}
        one = await member.client.get(COMPONENTS, "", "etcd-0")
        assert one["conditions"] == [{"type": "Healthy", "status": "True", "message": "ok"}]

    run_in_whole_cluster(scenario)


def test_a_cluster_without_a_scheduler_says_so() -> None:
    async def scenario(member: SimulatedMember) -> None:
        assert (await health(member))["scheduler"] == "False"

    run_in_whole_cluster(scenario, fleet(scheduler="none"))


def test_members_of_stories_serve_no_component_statuses() -> None:
    async def scenario(member: SimulatedMember) -> None:
        response = await member.client.fetch("/api/v1/componentstatuses")
        assert response.code == 404

    run_in_member(scenario)
