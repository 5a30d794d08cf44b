"""The local fleet keeps its plan, and a member that was unjoined stays unjoined."""

import asyncio
import base64
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from cli.processes import until
from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_clusters import ManagedClusterSet
from trimtab.cli.support.options.controller_selection import enabled_controllers
from trimtab.client.client import Resource, resource_of
from trimtab.client.kubeconfig import Credentials
from trimtab.errors import InputError
from trimtab.local_fleet import LocalFleet, LocalFleetOptions, port_of, read_stored_plan
from trimtab.members.join import SECRETS, SERVICE_ACCOUNTS, ClusterFacts, join
from trimtab.members.member_client import client_from_secret
from trimtab.runtime.leader_election import LEASES
from trimtab.runtime.observe_only import begin_observing, end_observing, note_restore
from trimtab.simulate.fleet import FleetPlan, uniform_fleet
from trimtab.simulate.kubelets.node_status import NODES

EVENTS = Resource("", "v1", "events", "Event")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
CLUSTERS, SETS = resource_of(kind_of(Cluster)), resource_of(kind_of(ManagedClusterSet))


async def run(directory: Path, plan: FleetPlan | None, *, delete: str = "") -> list[str]:
    """Start and stop the fleet once; the names of the clusters that are joined."""
    local = LocalFleet(directory, "127.0.0.1", 0, plan, "trimtab", {})
    try:
        await local.open()
        await local.start()
        if delete:
            await local.fleet.client.patch(CLUSTERS, "", delete, {"metadata": {"finalizers": None}})
            await local.fleet.client.delete(CLUSTERS, "", delete)
        return sorted(raw["metadata"]["name"] for raw in (await local.fleet.client.list(CLUSTERS)).items)
    finally:
        await local.stop()


def test_next_start_uses_the_stored_plan_and_does_not_rejoin_members(tmp_path: Path) -> None:
    plan = uniform_fleet(2, 1)
    first, second = (member.name for member in plan.members)
    asyncio.run(run(tmp_path, plan, delete=second))
    stored = read_stored_plan(tmp_path / "fleet.json")
    assert stored is not None
    assert [member.name for member in stored.members] == [first, second]
    assert second not in asyncio.run(run(tmp_path, None))


def test_only_the_selected_controllers_run(tmp_path: Path) -> None:
    async def scenario() -> set[str]:
        selected = enabled_controllers("clusterset,-placement")
        local = LocalFleet(tmp_path, "127.0.0.1", 0, FleetPlan(), "trimtab", {}, LocalFleetOptions(is_enabled=selected))
        try:
            await local.open()
            await local.start()
            assert local.fleet.plane is not None

            async def has_builtin_sets() -> bool:
                names = {raw["metadata"]["name"] for raw in (await local.fleet.client.list(SETS)).items}
                return names == {"default", "global"}

            await until(has_builtin_sets)
            return {one.controller.name for one in local.fleet.plane.manager.reconcilers}
        finally:
            await local.stop()

    assert asyncio.run(scenario()) == {"clusterset"}


def test_stored_plan_of_an_earlier_build_is_converted(tmp_path: Path) -> None:
    (tmp_path / "fleet.json").write_text('{"members": [{"name": "a"}], "binder": "first-fit"}')
    stored = read_stored_plan(tmp_path / "fleet.json")
    assert stored is not None
    assert stored.scheduler == "first-fit"


def test_unreadable_plan_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "fleet.json").write_text("{")
    with pytest.raises(InputError, match="delete it to start with another fleet"):
        read_stored_plan(tmp_path / "fleet.json")
    assert read_stored_plan(tmp_path / "none.json") is None


async def start_and_read(directory: Path, plan: FleetPlan | None, **options: Any) -> tuple[LocalFleet, dict[str, Any]]:
    local = LocalFleet(directory, "127.0.0.1", 0, plan, "trimtab", {}, LocalFleetOptions(**options))
    try:
        await local.open()
        await local.start()
        return local, {raw["metadata"]["name"]: raw for raw in (await local.fleet.client.list(CLUSTERS)).items}
    finally:
        await local.stop()


def test_members_and_control_plane_have_a_reachable_endpoint_and_credentials(tmp_path: Path) -> None:
    async def run_fleet() -> None:
        local = LocalFleet(tmp_path, "127.0.0.1", 0, uniform_fleet(1, 1), "trimtab", {})
        await local.open()
        await local.start()
        try:
            cluster = await local.fleet.client.get(CLUSTERS, "", "member1")
            reference = cluster["spec"]["secretRef"]
            secret = await local.fleet.client.get(SECRETS, reference["namespace"], reference["name"])
            client = client_from_secret(kind_of(Cluster).decode(cluster), lambda *_: secret)
            assert client is not None
            nodes = await client.list(NODES)
            assert [node["metadata"]["name"] for node in nodes.items] == ["member1-node-1"]
            await client.close()
            endpoints = await local.fleet.client.get(ENDPOINTS, "default", "kubernetes")
            assert endpoints["subsets"][0]["ports"][0]["port"] == urlsplit(local.daemon.url).port
        finally:
            await local.stop()

    asyncio.run(run_fleet())


def test_members_have_an_impersonator_as_after_karmadactl_join(tmp_path: Path) -> None:
    async def run_fleet() -> None:
        local = LocalFleet(tmp_path, "127.0.0.1", 0, uniform_fleet(1, 1), "upstream", {})
        await local.open()
        await local.start()
        try:
            cluster = await local.fleet.client.get(CLUSTERS, "", "member1")
            reference = cluster["spec"]["impersonatorSecretRef"]
            secret = await local.fleet.client.get(SECRETS, reference["namespace"], reference["name"])
            assert secret["data"]["token"]

            async def is_synced() -> bool:
                found = await local.fleet.client.list(EVENTS, "default")
                return any(event["reason"] == "SyncImpersonationConfigSucceed" for event in found.items)

            await until(is_synced)
        finally:
            await local.stop()

    asyncio.run(run_fleet())


def test_token_of_the_administrator_is_valid_on_members(tmp_path: Path) -> None:
    local = LocalFleet(tmp_path, "127.0.0.1", 0, uniform_fleet(1, 1), "trimtab", {})
    (member,) = local.fleet.world
    user = member.server.authenticator.authenticate(f"Bearer {local.daemon.admin_token}", None)
    assert user.name == "trimtab-admin"
    asyncio.run(local.daemon.api.store.close())


def test_members_keep_their_endpoint_over_restarts(tmp_path: Path) -> None:
    _, first = asyncio.run(start_and_read(tmp_path, uniform_fleet(2, 1)))
    _, second = asyncio.run(start_and_read(tmp_path, None))
    assert len({cluster["spec"]["apiEndpoint"] for cluster in first.values()}) == 2
    # The controllers may have added a taint already: the cluster has not been ready yet.
    stated = [{name: {**one["spec"], "taints": None} for name, one in read.items()} for read in (first, second)]
    assert stated[0] == stated[1]


def test_endpoint_of_a_member_follows_its_port_when_that_is_taken(tmp_path: Path) -> None:
    _, first = asyncio.run(start_and_read(tmp_path, uniform_fleet(1, 1)))
    endpoint = first["member1"]["spec"]["apiEndpoint"]
    with socket.create_server(("127.0.0.1", port_of(endpoint))):
        local, second = asyncio.run(start_and_read(tmp_path, None))
    assert second["member1"]["spec"]["apiEndpoint"] == local.fleet.endpoints["member1"] != endpoint


def test_pull_members_get_a_heartbeat_and_become_ready(tmp_path: Path) -> None:
    async def run_fleet() -> None:
        local = LocalFleet(tmp_path, "127.0.0.1", 0, uniform_fleet(2, 1), "trimtab", {}, LocalFleetOptions(pull=1))
        await local.open()
        await local.start()
        try:
            async with asyncio.timeout(60):
                while True:
                    cluster = await local.fleet.client.get(CLUSTERS, "", "member2")
                    conditions = (cluster.get("status") or {}).get("conditions") or []
                    if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
                        break
                    await asyncio.sleep(0.05)
            assert cluster["spec"]["syncMode"] == "Pull"
            assert cluster["spec"]["secretRef"] == {"namespace": "karmada-cluster", "name": "member2"}
            assert (await local.fleet.client.get(LEASES, "karmada-cluster", "member2"))["spec"]["renewTime"]
        finally:
            await local.stop()

    asyncio.run(run_fleet())


def test_kubeconfig_has_the_further_contexts(tmp_path: Path) -> None:
    local, _ = asyncio.run(start_and_read(tmp_path, uniform_fleet(1, 1), contexts=["karmada-apiserver"]))
    contexts = yaml.safe_load(local.daemon.kubeconfig.read_text())["contexts"]
    assert [context["name"] for context in contexts] == ["trimtab", "karmada-apiserver", "member1"]


def test_more_pull_members_than_members_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has 1 members"):
        LocalFleet(tmp_path, "127.0.0.1", 0, uniform_fleet(1, 1), "trimtab", {}, LocalFleetOptions(pull=2))


@pytest.mark.parametrize(
    ("mode", "serves", "acts"), [("on", True, True), ("read-only", True, False), ("off", False, False)]
)
def test_console_can_be_read_only_or_switched_off(tmp_path: Path, mode: str, serves: bool, acts: bool) -> None:
    local = LocalFleet(
        tmp_path, "127.0.0.1", 0, uniform_fleet(1, 1), "trimtab", {}, LocalFleetOptions(console_mode=mode)
    )
    assert ("/console/login/" in local.console_url) == serves
    assert (serves and not local.console.data.services.is_read_only) == acts


def test_controllers_of_a_restored_fleet_start_when_they_are_released(tmp_path: Path) -> None:
    async def run_fleet() -> None:
        note_restore(tmp_path, observe=True)
        local = LocalFleet(tmp_path, "127.0.0.1", 0, uniform_fleet(1, 1), "trimtab", {})
        await local.open()
        await local.start()

        async def is_running() -> bool:
            return local.fleet.plane is not None and local.fleet.plane.is_ready

        async def is_stopped() -> bool:
            return local.fleet.plane is None

        try:
            assert local.fleet.plane is None
            assert local.reason_to_observe == "restored from a backup"
            assert not (tmp_path / "restored").exists(), "the mark is on the host from now on"
            await end_observing(local.fleet.client)
            await until(is_running)
            assert local.reason_to_observe == ""
            await begin_observing(local.fleet.client, "etcd restored")
            await until(is_stopped)
            await end_observing(local.fleet.client)
            await until(is_running)
        finally:
            await local.stop()

    asyncio.run(run_fleet())


def test_control_plane_fills_token_secrets(tmp_path: Path) -> None:
    async def scenario() -> str:
        local = LocalFleet(tmp_path, "127.0.0.1", 0, FleetPlan(), "trimtab", {})
        client = local.fleet.client
        try:
            await local.open()
            await local.start()
            metadata: dict[str, Any] = {"namespace": "default", "name": "tom"}
            await client.create(SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
            head = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token"}
            annotations = {"kubernetes.io/service-account.name": "tom"}
            await client.create(SECRETS, {**head, "metadata": {**metadata, "annotations": annotations}})

            async def has_token() -> bool:
                return bool((await client.get(SECRETS, "default", "tom")).get("data", {}).get("token"))

            await until(has_token)
            token = base64.b64decode((await client.get(SECRETS, "default", "tom"))["data"]["token"]).decode()
            return local.daemon.api.authenticator.authenticate(f"Bearer {token}", None).name
        finally:
            await local.stop()

    assert asyncio.run(scenario()) == "system:serviceaccount:default:tom"


def test_member_cannot_be_joined_again_under_another_name_or_by_another_control_plane(tmp_path: Path) -> None:
    async def run_fleets() -> None:
        local = LocalFleet(tmp_path / "one", "127.0.0.1", 0, uniform_fleet(1, 1), "trimtab", {})
        other = LocalFleet(tmp_path / "two", "127.0.0.1", 0, FleetPlan(), "trimtab", {})
        try:
            for fleet in (local, other):
                await fleet.open()
                await fleet.start()
            member, credentials = local.fleet.world["member1"].client, Credentials("https://elsewhere.example")
            with pytest.raises(InputError, match="already joined as member1"):
                await join(local.fleet.client, member, "again", credentials, ClusterFacts())
            with pytest.raises(InputError, match="held by another control plane"):
                await join(other.fleet.client, member, "taken", credentials, ClusterFacts())
        finally:
            for fleet in (local, other):
                await fleet.stop()

    asyncio.run(run_fleets())
