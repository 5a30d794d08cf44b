"""A member that joins again does not keep what the control plane left there while the member did not answer."""

from collections.abc import Sequence

import pytest

from members.test_join import CLUSTERS, CREDENTIALS, FACTS, MemberClient, run_scenario
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.controllers.control_plane_identity import ControlPlaneIdentity
from trimtab.errors import Forbidden, InputError, NotFound
from trimtab.members.join import NAMESPACES, join
from trimtab.members.left_objects import remove_before_first_report, remove_left_objects
from trimtab.runtime.control_plane_identity import draw_identity, read_identity
from trimtab.runtime.observe_only import begin_observing, end_observing
from trimtab.server.local import LocalClient

CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")
WORKS = Resource("work.karmada.io", "v1alpha1", "works", "Work")
SPACE = "karmada-es-east"
MANAGED = {"karmada.io/managed": "true"}


def marks(control_plane: str, **more: str) -> Raw:
    return {
        "work.karmada.io/namespace": SPACE,
        "work.karmada.io/name": "work-of-it",
        "trimtab.dev/control-plane": control_plane,
        **{f"trimtab.dev/{name.replace('_', '-')}": value for name, value in more.items()},
    }


def config(name: str, annotations: Raw, *, namespace: str = "default", labels: Raw = MANAGED) -> Raw:
    metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def create_namespace(client: Client, name: str, annotations: Raw | None = None) -> None:
    metadata = {"name": name, "labels": MANAGED, "annotations": annotations} if annotations else {"name": name}
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


async def names(client: Client) -> set[str]:
    return {raw["metadata"]["name"] for raw in (await client.list(CONFIGS, "default")).items} - {"kube-root-ca.crt"}


def test_join_deletes_what_the_control_plane_left_and_nothing_else() -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        own = (await read_identity(host)).own
        for obj in (
            config("left", marks(own)),
            config("adopted", marks(own, adopted="true")),
            config("preserved", marks(own, deletion_policy="Orphan")),
            config("of-another-control-plane", marks("another")),
            config("without-id", {}),
            config("not-managed", marks(own), labels={}),
        ):
            await member.create(CONFIGS, obj)
        removed: list[str] = []
        await join(host, member, "east", CREDENTIALS, FACTS, removed=removed.extend)
        assert removed == ["ConfigMap/default/left"]
        assert await names(member) == {
            "adopted",
            "preserved",
            "of-another-control-plane",
            "without-id",
            "not-managed",
        }
        for name in ("adopted", "preserved"):
            metadata = (await member.get(CONFIGS, "default", name))["metadata"]
            assert not metadata.get("labels")
            assert not metadata.get("annotations")

    run_scenario(scenario)


def test_nothing_joins_and_nothing_is_deleted_while_a_restored_host_only_observes() -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        await member.create(CONFIGS, config("left", marks((await read_identity(host)).own)))
        await begin_observing(host, "restored from a backup")
        with pytest.raises(InputError, match="only observes \\(restored from a backup\\)"):
            await join(host, member, "east", CREDENTIALS, FACTS)
        assert await names(member) == {"left"}
        await end_observing(host)
        await join(host, member, "east", CREDENTIALS, FACTS)
        assert await names(member) == set()

    run_scenario(scenario)


def test_object_whose_work_exists_stays() -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        await create_namespace(host, SPACE)
        metadata = {"name": "work-of-it", "namespace": SPACE}
        await host.create(WORKS, {"apiVersion": WORKS.api_version, "kind": "Work", "metadata": metadata, "spec": {}})
        await member.create(CONFIGS, config("served", marks((await read_identity(host)).own)))
        assert not await remove_left_objects(host, member, await read_identity(host))
        assert await names(member) == {"served"}

    run_scenario(scenario)


def test_object_whose_work_cannot_be_read_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent reads the Works of its own cluster only."""

    async def refuse(*_: object) -> Raw:
        raise Forbidden("no")

    async def scenario(host: LocalClient, member: MemberClient) -> None:
        own = (await read_identity(host)).own
        await member.create(CONFIGS, config("served", marks(own)))
        monkeypatch.setattr(host, "get", refuse)
        assert not await remove_left_objects(host, member, ControlPlaneIdentity(own))
        assert await names(member) == {"served"}

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("others", "on_host", "stays"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_namespace_is_deleted_only_if_it_is_empty_and_the_host_has_none(
    others: bool, on_host: bool, stays: bool
) -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        own = (await read_identity(host)).own
        await create_namespace(member, "team", marks(own))
        await member.create(CONFIGS, config("left", marks(own), namespace="team"))
        if others:
            await member.create(CONFIGS, config("theirs", {}, namespace="team", labels={}))
        if on_host:
            await create_namespace(host, "team")
        removed = await remove_left_objects(host, member, ControlPlaneIdentity(own))
        assert removed == ["ConfigMap/team/left"] + ([] if stays else ["Namespace/team"])
        if stays:
            labels = (await member.get(NAMESPACES, "", "team"))["metadata"]["labels"]
            assert (labels.get("karmada.io/managed") == "true") == on_host, "its next Work finds the one of the host"

    run_scenario(scenario)


def test_agent_removes_only_before_its_cluster_was_ready_for_the_first_time() -> None:
    """Works that are missing later, as after a restore of the host, are no reason to delete what runs."""

    async def scenario(host: LocalClient, member: MemberClient) -> None:
        own = (await read_identity(host)).own
        await join(host, member, "east", CREDENTIALS, FACTS, mode="Pull")

        async def removed() -> Sequence[str]:
            return await remove_before_first_report(host, member, "east", await read_identity(host))

        await member.create(CONFIGS, config("left", marks(own)))
        assert await removed() == ["ConfigMap/default/left"]
        await member.create(CONFIGS, config("served", marks(own)))
        cluster = await host.get(CLUSTERS, "", "east")
        await host.replace(CLUSTERS, {**cluster, "status": {"kubernetesVersion": "v1.32.2"}}, subresource="status")
        assert await removed() == []
        with pytest.raises(NotFound):
            await remove_before_first_report(host, member, "west", await read_identity(host))

    run_scenario(scenario)


@pytest.mark.parametrize("by_agent", [False, True])
def test_what_a_former_id_left_is_deleted_by_a_join_and_never_by_an_agent(by_agent: bool) -> None:
    """The original of a restored copy may still run; whoever joins its cluster has said that it does not."""

    async def scenario(host: LocalClient, member: MemberClient) -> None:
        former = (await read_identity(host)).own
        await member.create(CONFIGS, config("left", marks(former)))
        await draw_identity(host)
        await join(host, member, "east", CREDENTIALS, FACTS, mode="Pull" if by_agent else "Push", take_over=True)
        assert await names(member) == set()
        if by_agent:
            await member.create(CONFIGS, config("later", marks(former)))
            assert await remove_before_first_report(host, member, "east", await read_identity(host)) == []
            assert await names(member) == {"later"}

    run_scenario(scenario)


def test_cluster_of_the_original_needs_a_takeover_to_join_its_restored_copy() -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        former = (await read_identity(host)).own
        await join(host, member, "east", CREDENTIALS, FACTS)
        await host.delete(CLUSTERS, "", "east")
        await member.create(CONFIGS, config("running", marks(former)))
        await draw_identity(host)
        with pytest.raises(InputError, match=f"held by another control plane \\({former}\\)"):
            await join(host, member, "east", CREDENTIALS, FACTS)
        assert await names(member) == {"running"}

    run_scenario(scenario)
