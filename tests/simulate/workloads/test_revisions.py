import asyncio

from simulate.fixtures import STATEFULSETS, new_image, run_in_member, statefulset
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember

REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")


async def revision_numbers(member: SimulatedMember) -> list[int]:
    return sorted(one["revision"] for one in (await member.client.list(REVISIONS)).items)


async def update(member: SimulatedMember, image: str) -> None:
    await member.client.patch(STATEFULSETS, "default", "db", new_image(image), type="strategic")
    await asyncio.sleep(30)


def test_old_revisions_beyond_the_history_limit_are_deleted() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(STATEFULSETS, statefulset(replicas=2, spec={"revisionHistoryLimit": 1}))
        await asyncio.sleep(10)
        for version in range(2, 5):
            await update(member, f"app:{version}")
        assert await revision_numbers(member) == [3, 4]

    run_in_member(scenario)


def test_rollback_reuses_the_revision_with_a_new_number() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(STATEFULSETS, statefulset(replicas=2))
        await asyncio.sleep(10)
        await update(member, "app:2")
        assert await revision_numbers(member) == [1, 2]
        await update(member, "app:1")
        assert await revision_numbers(member) == [2, 3]

    run_in_member(scenario)


def test_revision_has_the_annotations_of_its_workload() -> None:
    async def scenario(member: SimulatedMember) -> None:
        body = statefulset(replicas=1)
        body["metadata"]["annotations"] = {"kubernetes.io/change-cause": "first"}
        await member.client.create(STATEFULSETS, body)
        await asyncio.sleep(10)
        (revision,) = (await member.client.list(REVISIONS)).items
        assert revision["metadata"]["annotations"] == {"kubernetes.io/change-cause": "first"}

    run_in_member(scenario)


def test_data_of_a_revision_is_sorted_and_has_the_fields_that_go_always_writes() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(STATEFULSETS, statefulset(replicas=1))
        await asyncio.sleep(10)
        (revision,) = (await member.client.list(REVISIONS)).items
        template = revision["data"]["spec"]["template"]
        assert list(template) == ["$patch", "metadata", "spec"]
        assert template["metadata"]["creationTimestamp"] is None
        assert list(template["spec"]) == sorted(template["spec"])

    run_in_member(scenario)


def test_revision_that_somebody_else_created_for_the_template_is_used() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(STATEFULSETS, statefulset(replicas=1))
        await asyncio.sleep(10)
        (first,) = (await member.client.list(REVISIONS)).items
        metadata = {key: first["metadata"][key] for key in ("namespace", "labels", "ownerReferences")}
        other = {"metadata": {**metadata, "name": "db-mine"}, "data": first["data"], "revision": 2}
        await member.client.create(REVISIONS, other)
        await member.client.delete(REVISIONS, "default", first["metadata"]["name"])
        await asyncio.sleep(10)
        assert [one["metadata"]["name"] for one in (await member.client.list(REVISIONS)).items] == ["db-mine"]
        await update(member, "app:2")
        assert await revision_numbers(member) == [2, 3]

    run_in_member(scenario)
