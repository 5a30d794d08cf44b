"""Objects that several ManifestWorks contain stay until the last of these is removed."""

from datetime import timedelta

import pytest
from builders import cluster
from views import NOON, FakeView

from trimtab.api.kinds.ocm_work import ManifestsTemplate, ManifestWork, ManifestWorkSpec
from trimtab.api.kinds.work import ManifestStatus, ResourceIdentifier, Work
from trimtab.api.value import Meta, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Delete, InCluster, Object
from trimtab.controllers.ocm.manifestwork import work_of
from trimtab.controllers.propagation.works.shared_objects import works_that_take_over
from trimtab.controllers.propagation.works.work_removal import remove_dropped_manifests, remove_from_member

CONFIG_MAP: Raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}}
KNOWN = ResourceIdentifier(version="v1", kind="ConfigMap", namespace="default", name="x")


def work(name: str, *manifests: Raw, cluster: str = "m1") -> Work:
    spec = ManifestWorkSpec(workload=ManifestsTemplate(manifests=manifests))
    made = work_of(ManifestWork(metadata=Meta(name=name, namespace=cluster, uid=name), spec=spec))
    return made.but(status=made.status.but(manifest_statuses=(ManifestStatus(identifier=KNOWN),)))


def deleted(one: Work) -> Work:
    return one.but(metadata=one.metadata.but(deletion_timestamp=NOON - timedelta(seconds=1)))


def deletions(removed: Work, *others: Object) -> int:
    """How many objects are deleted when the Work is deleted."""
    there = work(removed.name, CONFIG_MAP).spec.workload.manifests[0]
    member = cluster("m1")
    view = FakeView([member, removed, *others], members={("m1", well_known.ref_without_uid(there)): there})
    effects = remove_from_member(removed, member, view)
    return sum(isinstance(one, InCluster) and isinstance(one.effect, Delete) for one in effects)


def test_object_is_deleted_with_the_last_manifestwork_that_contains_it() -> None:
    removed = deleted(work("a", CONFIG_MAP))
    assert deletions(removed) == 1
    assert deletions(removed, work("b", CONFIG_MAP)) == 0
    assert deletions(removed, deleted(work("b", CONFIG_MAP))) == 1


@pytest.mark.parametrize(
    "other",
    [
        work("b", {**CONFIG_MAP, "kind": "Secret"}),
        work("b", CONFIG_MAP, cluster="m2"),
        work(
            "b", well_known.with_metadata(CONFIG_MAP, labels={}, annotations={well_known.UPDATE_STRATEGY: "ReadOnly"})
        ),
    ],
    ids=["another object", "another cluster", "only reads it"],
)
def test_object_is_not_kept_by_a_manifestwork_that_does_not_write_it(other: Work) -> None:
    assert deletions(deleted(work("a", CONFIG_MAP)), other) == 1


def test_object_of_a_dropped_manifest_stays_while_another_manifestwork_contains_it() -> None:
    present, member, other = work("a"), cluster("m1"), work("b", CONFIG_MAP)
    there = work("a", CONFIG_MAP).spec.workload.manifests[0]
    there = well_known.with_metadata(there, labels={}, annotations={well_known.WORK_NAME: present.name})

    def removed(*others: Work) -> int:
        view = FakeView([member, present, *others], members={("m1", well_known.ref_without_uid(there)): there})
        return len(list(remove_dropped_manifests(present, [], member, view)))

    assert (removed(), removed(other)) == (1, 0)


def test_works_with_an_object_that_another_one_gives_up_are_reconciled() -> None:
    before, other = work("a", CONFIG_MAP), work("b", CONFIG_MAP)
    changed = work("a").but(metadata=before.metadata.but(generation=before.metadata.generation + 1))
    view = FakeView([other])
    assert [key.name for key in works_that_take_over(before, None, view)] == [other.name]
    assert [key.name for key in works_that_take_over(before, changed, view)] == [other.name]
    assert not list(works_that_take_over(before, before, view))
    assert not list(works_that_take_over(None, before, view))
