"""The API server of a simulated member: what it serves, and that runs with one seed are repeatable."""

import asyncio
import random
from pathlib import Path
from typing import Any

from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.native.certificates import CertificateSigningRequest
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.policy import PropagationPolicy
from trimtab.api.profile import TRIMTAB
from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.server.local import LocalClient
from trimtab.simulate.kubelets.container_access import ContainerAccess
from trimtab.simulate.member_server import (
    MemberEnvironment,
    disk_server,
    is_served_by_member,
    is_served_by_whole_cluster,
    memory_server,
    seeded_uids,
)

API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService")


def environment(**more: object) -> MemberEnvironment:
    return MemberEnvironment(LoopClock(), TRIMTAB, random.Random(7), **more)  # type: ignore[arg-type]


def test_members_serve_kubernetes_and_our_kinds_but_nothing_of_the_control_plane() -> None:
    served = {type_: is_served_by_member(kind_of(type_)) for type_ in (Pod, DisruptionBudget, PropagationPolicy)}
    assert served == {Pod: True, DisruptionBudget: True, PropagationPolicy: False}
    requests = kind_of(CertificateSigningRequest)
    assert (is_served_by_member(requests), is_served_by_whole_cluster(requests)) == (False, True)


def test_uids_and_keys_of_a_member_in_memory_come_from_the_seed() -> None:
    first, second = (seeded_uids(random.Random(7)) for _ in range(2))
    assert [first() for _ in range(3)] == [second() for _ in range(3)]
    new_uids = [
        memory_server(environment(), {}, ContainerAccess()).resource_store._preparation._new_uid for _ in range(2)
    ]
    assert new_uids[0]() == new_uids[1]()


def test_key_of_a_member_on_disk_survives_and_only_its_user_reads_it(tmp_path: Path) -> None:
    disk_server(environment(directory=tmp_path), "m1", {}, ContainerAccess())
    key = tmp_path / "m1" / "service-account.key"
    content = key.read_bytes()
    assert key.stat().st_mode & 0o077 == 0
    assert len(content) == 64


def test_a_version_expires_in_a_member_on_disk_after_five_minutes(tmp_path: Path) -> None:
    async def write_again_after(seconds: float, name: str) -> tuple[int, int]:
        store = disk_server(environment(directory=tmp_path), name, {}, ContainerAccess()).store
        first = await store.create("/registry/core/leases/a/b", b"1")
        await asyncio.sleep(seconds)
        await store.update(first.key, b"2", first.mod_revision)
        await store.close()
        return first.mod_revision, store.compacted_revision

    early, late = (run_virtually(write_again_after(seconds, name)) for seconds, name in ((299, "early"), (301, "late")))
    assert early[1] < early[0]
    assert late[1] == late[0]


def test_member_of_a_whole_cluster_reports_api_services_of_other_servers(tmp_path: Path) -> None:
    async def scenario() -> None:
        whole = environment(directory=tmp_path, whole_clusters=True)
        server = disk_server(whole, "m1", {}, ContainerAccess())
        await server.start()
        try:
            client = LocalClient(server)
            spec = {"group": "x.dev", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}
            spec |= {"insecureSkipTLSVerify": True, "service": {"namespace": "default", "name": "missing"}}
            body = {"metadata": {"name": "v1.x.dev"}, "spec": spec}
            await client.create(API_SERVICES, body)
            found: dict[str, Any] = {}
            async with asyncio.timeout(20):
                while not found.get("conditions"):
                    await asyncio.sleep(0.01)
                    found = (await client.get(API_SERVICES, "", "v1.x.dev")).get("status") or {}
            assert [one["reason"] for one in found["conditions"]] == ["ServiceNotFound"]
        finally:
            await server.stop()

    asyncio.run(scenario())
