"""Which objects are removed from a member when their manifests leave the Work."""

from builders import binding, cluster, deployment, works_by_cluster
from views import FakeView

from trimtab.api.kinds.work import ManifestStatus, ResourceIdentifier, Work
from trimtab.api.value import Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Delete, Ensure, InCluster, Ref
from trimtab.controllers.propagation.dispatch import dispatch
from trimtab.controllers.propagation.works.work_delivery import ManifestDelivery
from trimtab.controllers.propagation.works.work_removal import remove_dropped_manifests


def work_without_its_manifest() -> tuple[Work, Raw]:
    """A Work that reports an object as applied whose manifest it does not have any more, and that object."""
    effects = list(dispatch(binding(clusters={"m1": 3}), FakeView([], raws=[deployment()])))
    (work,) = works_by_cluster(effects).values()
    manifest = work.spec.workload.manifests[0]
    metadata = manifest["metadata"]
    known = ResourceIdentifier(
        group="apps",
        version="v1",
        kind="Deployment",
        namespace=metadata["namespace"],
        name=metadata["name"],
    )
    status = work.status.but(manifest_statuses=(ManifestStatus(identifier=known),))
    return work.but(status=status), manifest


def removals(work: Work, there: Raw) -> list[object]:
    ref = well_known.ref_without_uid(there)
    view = FakeView([work], members={("m1", ref): there})
    return [one.effect for one in remove_dropped_manifests(work, [], cluster("m1"), view) if isinstance(one, InCluster)]


def test_object_of_a_dropped_manifest_is_deleted() -> None:
    work, there = work_without_its_manifest()
    (removal,) = removals(work, there)
    assert isinstance(removal, Delete)
    assert isinstance(removal.target, Ref)
    assert removal.target.name == there["metadata"]["name"]


def test_object_whose_manifest_has_changed_to_another_version_stays() -> None:
    work, there = work_without_its_manifest()
    view = FakeView([work], members={("m1", well_known.ref_without_uid(there)): there})

    def removed(api_version: str) -> int:
        ref = well_known.ref_without_uid({**there, "apiVersion": api_version})
        delivery = ManifestDelivery(ref, there, None, None, "")
        return len(list(remove_dropped_manifests(work, [delivery], cluster("m1"), view)))

    assert [removed(one) for one in ("apps/v1", "apps/v2", "extensions/v1")] == [0, 0, 1]


def test_object_that_another_work_has_taken_over_stays() -> None:
    work, there = work_without_its_manifest()
    taken = well_known.with_metadata(there, labels={}, annotations={well_known.WORK_NAME: "another"})
    assert removals(work, taken) == []


def test_object_that_nobody_manages_any_more_stays() -> None:
    work, there = work_without_its_manifest()
    released = well_known.with_metadata(there, labels={well_known.MANAGED: None}, annotations={})
    assert removals(work, released) == []


def test_object_that_is_to_be_orphaned_is_released() -> None:
    work, there = work_without_its_manifest()
    kept = well_known.with_metadata(there, labels={}, annotations={well_known.ON_DELETION: "Orphan"})
    (removal,) = removals(work, kept)
    assert isinstance(removal, Ensure)
    assert well_known.MANAGED not in removal.wanted["metadata"].get("labels", {})


def test_object_of_a_work_that_preserves_its_objects_is_released() -> None:
    work, there = work_without_its_manifest()
    (removal,) = removals(work.but(spec=work.spec.but(preserve_resources_on_deletion=True)), there)
    assert isinstance(removal, Ensure)


def test_object_that_is_gone_or_unknown_needs_no_removal() -> None:
    work, there = work_without_its_manifest()
    ref = well_known.ref_without_uid(there)
    for members in ({("m1", ref): None}, {}):
        assert list(remove_dropped_manifests(work, [], cluster("m1"), FakeView([work], members=members))) == []
