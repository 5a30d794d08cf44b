"""What the controllers would do is found without a write on the host or in a member."""

from compat.flows import RECORDED_SETTINGS
from compat.recorded_state import stopped_karmada

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.profile import UPSTREAM
from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.rehearsal.rehearsal import Rehearsal, rehearse
from trimtab.server.local import LocalClient

POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
WORKS = Resource("work.karmada.io", "v1alpha1", "works", "Work")
FLOW = "deploy-static-scale"
NAMESPACE = f"fl-{FLOW}"


async def rehearsed(fleet: EmbeddedFleet) -> Rehearsal:
    def connect(cluster: Cluster) -> LocalClient:
        return LocalClient(fleet.world[cluster.name].server)

    revisions = [fleet.host.store.revision, *(member.server.store.revision for member in fleet.world)]
    found = await rehearse(
        fleet.client, LoopClock(), UPSTREAM, settings=RECORDED_SETTINGS, connect=connect, quiet_seconds=3.0
    )
    assert [fleet.host.store.revision, *(member.server.store.revision for member in fleet.world)] == revisions
    return found


def test_state_of_karmada_needs_no_writes_in_members() -> None:
    async def run() -> None:
        async with stopped_karmada(FLOW) as fleet:
            found = await rehearsed(fleet)
            assert found.is_finished
            assert (found.member_writes, found.placements, found.not_read, found.left_out) == ((), (), (), ())

    run_virtually(run())


def test_every_consequence_of_a_changed_policy_is_listed_and_none_is_written() -> None:
    async def run() -> None:
        async with stopped_karmada(FLOW) as fleet:
            only = {"spec": {"placement": {"clusterAffinity": {"clusterNames": ["member1"]}}}}
            await fleet.client.patch(POLICIES, NAMESPACE, "pp", only)
            found = await rehearsed(fleet)
            assert sorted(write[:5] for write in found.member_writes) == [
                ("member1", "update", "Deployment", NAMESPACE, "web"),
                ("member2", "delete", "Deployment", NAMESPACE, "web"),
                ("member3", "delete", "Deployment", NAMESPACE, "web"),
            ]
            assert "spec.replicas" in next(write.fields for write in found.member_writes if write.verb == "update")
            (change,) = found.placements
            assert (change.before, change.after) == ({"member1": 1, "member2": 2, "member3": 1}, {"member1": 4})
            assert any(line.startswith("Work karmada-es-member2/") for line in found.host_changes)

    run_virtually(run())


def test_deleted_work_is_listed_as_a_deletion_before_it_is_one() -> None:
    async def run() -> None:
        async with stopped_karmada(FLOW) as fleet:
            (work,) = [
                raw
                for raw in (await fleet.client.list(WORKS, "karmada-es-member3")).items
                if "web" in raw["metadata"]["name"]
            ]
            await fleet.client.delete(WORKS, "karmada-es-member3", work["metadata"]["name"])
            found = await rehearsed(fleet)
            assert [write[:5] for write in found.deletions] == [("member3", "delete", "Deployment", NAMESPACE, "web")]

    run_virtually(run())
