"""Works that a controller writes without a binding."""

from builders import NOON, configmap
from views import FakeView

from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import Work
from trimtab.api.value import Meta
from trimtab.controllers import well_known
from trimtab.controllers.contract import Delete, RequeueAfter
from trimtab.controllers.propagation.works.direct_works import can_hold_works, direct_work, sync_direct_works


def work(name: str = "conf", **labels: str) -> Work:
    return direct_work(configmap(name), "m1", labels)


def test_a_direct_work_is_in_the_namespace_of_its_cluster_and_names_itself_in_its_object() -> None:
    made = work(team="a")
    assert made.namespace == well_known.execution_namespace("m1")
    assert made.metadata.finalizers == (well_known.WORK_FINALIZER,)
    (manifest,) = made.spec.workload.manifests
    assert manifest["metadata"]["labels"][well_known.WORK_ID] == made.metadata.labels[well_known.WORK_ID]
    assert "team" not in manifest["metadata"]["labels"]


def test_the_same_object_in_two_clusters_has_two_ids() -> None:
    ids = {direct_work(configmap(), name, {}).metadata.labels[well_known.WORK_ID] for name in ("m1", "m2")}
    assert len(ids) == 2


def test_what_is_as_wanted_is_not_written_and_what_is_not_wanted_is_deleted() -> None:
    kept, extra = work("kept"), work("extra")
    assert list(sync_direct_works([kept], [kept])) == []
    (gone,) = sync_direct_works([kept], [kept, extra])
    assert isinstance(gone, Delete)
    assert list(sync_direct_works([kept], [])) == [kept]


def test_a_work_that_is_being_deleted_is_replaced_only_when_it_is_gone() -> None:
    leaving = work()
    leaving = leaving.but(metadata=leaving.metadata.but(deletion_timestamp=NOON))
    (wait,) = sync_direct_works([work()], [leaving])
    assert isinstance(wait, RequeueAfter)
    assert list(sync_direct_works([], [leaving])) == [], "it is deleted once"


def test_a_namespace_that_is_being_deleted_holds_no_works() -> None:
    name = well_known.execution_namespace("m1")
    assert not can_hold_works("m1", FakeView())
    assert can_hold_works("m1", FakeView([Namespace(metadata=Meta(name=name))]))
    assert not can_hold_works("m1", FakeView([Namespace(metadata=Meta(name=name, deletion_timestamp=NOON))]))
