"""The API server of a simulated member: what it serves, and that runs with one seed are repeatable."""

import asyncio
import random
from pathlib import Path

from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.native.certificates import CertificateSigningRequest
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.policy import PropagationPolicy
from trimtab.api.profile import TRIMTAB
from trimtab.clock import LoopClock, run_virtually
from trimtab.simulate.kubelets.container_access import ContainerAccess
from trimtab.simulate.member_server import (
    MemberEnvironment,
    disk_server,
    is_served_by_member,
    is_served_by_whole_cluster,
    memory_server,
    seeded_uids,
)


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
