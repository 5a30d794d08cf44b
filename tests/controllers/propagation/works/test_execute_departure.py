"""What a leaving cluster keeps: objects that existed before their Work, and namespaces with objects of others."""

from datetime import timedelta

import pytest
from builders import NOON, binding, cluster, deployment, works_by_cluster
from views import FakeView

from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.profile import TRIMTAB, UPSTREAM
from trimtab.api.value import Meta
from trimtab.controllers import well_known
from trimtab.controllers.contract import (
    FOREIGN_OBJECTS,
    Delete,
    Ensure,
    FindForeignObjects,
    ForeignObjectsAnswer,
    InCluster,
    Ref,
    RequeueAfter,
)
from trimtab.controllers.propagation.dispatch import dispatch
from trimtab.controllers.propagation.works.execute import execute
from trimtab.controllers.propagation.works.work_removal import LISTING_SECONDS


def work_for(manifest=None, **annotations):
    seen = FakeView([], raws=[deployment()])
    effects = list(dispatch(binding(clusters={"m1": 3}, conflict_resolution="Overwrite"), seen))
    (work,) = works_by_cluster(effects).values()
    rendered = manifest or work.spec.workload.manifests[0]
    rendered = well_known.with_metadata(rendered, labels={}, annotations=annotations)
    spec = work.spec.but(workload=work.spec.workload.but(manifests=(rendered,)))
    return work.but(metadata=work.metadata.but(resource_version="4", generation=1), spec=spec)


def in_member(work, **metadata):
    manifest = work.spec.workload.manifests[0]
    return {**manifest, "metadata": manifest["metadata"] | {"resourceVersion": "40", "uid": "there"} | metadata}


def view(work, there, *things, **more):
    ref = well_known.ref_without_uid(work.spec.workload.manifests[0])
    return FakeView([work, *things], members={("m1", ref): there}, **more)


def member_writes(effects):
    return [effect.effect for effect in effects if isinstance(effect, InCluster)]


def leaving(**changes):
    subject = cluster("m1", **changes)
    return subject.but(metadata=subject.metadata.but(deletion_timestamp=NOON))


def deleted(work):
    return work.but(metadata=work.metadata.but(deletion_timestamp=NOON))


@pytest.mark.parametrize("strategy", ["", "ServerSideApply"])
def test_object_that_is_taken_over_is_marked_and_stays_marked(strategy: str) -> None:
    work = work_for(**({well_known.UPDATE_STRATEGY: strategy} if strategy else {}))
    foreign = deployment() | {"metadata": {"name": "web", "namespace": "demo", "resourceVersion": "3"}}
    (write,) = member_writes(execute(work, view(work, foreign, cluster("m1"))))
    assert write.wanted["metadata"]["annotations"][well_known.ADOPTED] == "true"
    (upstream,) = member_writes(execute(work, view(work, foreign, cluster("m1"), profile=UPSTREAM)))
    assert well_known.ADOPTED not in upstream.wanted["metadata"]["annotations"]
    changed = {**write.wanted, "spec": {**write.wanted["spec"], "replicas": 9}}
    (again,) = member_writes(execute(work, view(work, changed, cluster("m1"))))
    assert again.wanted["metadata"]["annotations"][well_known.ADOPTED] == "true"


def test_object_that_was_created_here_is_not_marked() -> None:
    work = work_for()
    changed = {**in_member(work), "spec": {"replicas": 9}}
    (write,) = member_writes(execute(work, view(work, changed, cluster("m1"))))
    assert well_known.ADOPTED not in write.wanted["metadata"]["annotations"]


def test_adopted_object_is_released_in_a_leaving_cluster_and_deleted_in_any_other() -> None:
    work = deleted(work_for())
    there = well_known.with_metadata(in_member(work), labels={}, annotations={well_known.ADOPTED: "true"})
    (kept,) = member_writes(execute(work, view(work, there, leaving())))
    assert isinstance(kept, Ensure)
    assert well_known.MANAGED not in kept.wanted["metadata"]["labels"]
    assert well_known.ADOPTED not in kept.wanted["metadata"]["annotations"]
    assert isinstance(member_writes(execute(work, view(work, there, cluster("m1"))))[0], Delete)
    assert isinstance(member_writes(execute(work, view(work, there, leaving(), profile=UPSTREAM)))[0], Delete)


@pytest.mark.parametrize("others", [(), ("ConfigMap/theirs",)])
def test_namespace_is_deleted_only_when_nothing_of_others_is_in_it(others: tuple[str, ...]) -> None:
    labels = {well_known.MANAGED: "true"}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": labels}}
    work = deleted(work_for(manifest))
    snapshot = view(work, in_member(work), leaving())
    question = FindForeignObjects("m1", "team")
    assert list(execute(work, snapshot)) == [question]
    snapshot.memory[FOREIGN_OBJECTS, question] = ForeignObjectsAnswer(NOON - timedelta(seconds=LISTING_SECONDS), ())
    assert list(execute(work, snapshot)) == [question]  # too old
    snapshot.memory[FOREIGN_OBJECTS, question] = ForeignObjectsAnswer(NOON, others)
    (write,) = member_writes(execute(work, snapshot))
    assert isinstance(write, Ensure if others else Delete)
    if not others:
        assert write == Delete(Ref("v1", "Namespace", "", "team"))


def test_objects_in_a_cluster_that_does_not_answer_are_given_up_only_when_it_is_removed() -> None:
    work = deleted(work_for())
    space = Namespace(metadata=Meta(name="karmada-es-m1"))
    gone = leaving(ready="False")
    (waits,) = execute(work, view(work, in_member(work), gone, space))
    assert isinstance(waits, RequeueAfter)
    terminating = space.but(metadata=space.metadata.but(deletion_timestamp=NOON))
    for things, profile in (((gone, terminating), TRIMTAB), ((gone, space), UPSTREAM)):
        (finalized,) = execute(work, view(work, in_member(work), *things, profile=profile))
        assert finalized.metadata.finalizers == ()


@pytest.mark.parametrize("preserved", [True, False])
def test_object_to_be_preserved_is_released_in_a_leaving_cluster_as_well(preserved: bool) -> None:
    work = deleted(work_for())
    work = work.but(spec=work.spec.but(preserve_resources_on_deletion=preserved))
    (write,) = member_writes(execute(work, view(work, in_member(work), leaving())))
    assert isinstance(write, Ensure if preserved else Delete)


def test_objects_in_a_cluster_whose_execution_namespace_is_gone_are_given_up() -> None:
    work = deleted(work_for())
    (finalized,) = execute(work, view(work, in_member(work), leaving(ready="False")))
    assert finalized.metadata.finalizers == ()


def test_deleted_work_without_the_finalizer_deletes_nothing() -> None:
    work = deleted(work_for())
    released = work.but(metadata=work.metadata.but(finalizers=("example.com/other",)))
    assert list(execute(released, view(released, in_member(work), cluster("m1")))) == []
