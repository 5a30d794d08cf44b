"""The member has the objects of the Work, and the Work reports their status."""

from datetime import timedelta

import pytest
from builders import NOON, binding, cluster, deployment, works_by_cluster
from views import FakeView

from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import Work
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.api.value import Condition, Meta
from trimtab.controllers import well_known
from trimtab.controllers.conditions import find_condition, is_condition_true
from trimtab.controllers.contract import (
    ACCESS,
    AccessAnswer,
    CheckAccess,
    Delete,
    Ensure,
    Fetch,
    InCluster,
    ReconcileFault,
    RecordEvent,
    RememberInProcess,
    RequeueAfter,
)
from trimtab.controllers.propagation.dispatch import dispatch
from trimtab.controllers.propagation.works.execute import execute, work_changed, work_of_object, works_of_cluster
from trimtab.controllers.propagation.works.member_object import SENT, SETTLED, fingerprint
from trimtab.controllers.propagation.works.work_delivery import FETCHED
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.prune import prune


def view(*things, members=None, **more) -> FakeView:
    return FakeView(things, members=members or {}, interpreter=Interpreter.of(), **more)


def work_for(template=None, **fields):
    seen = FakeView([], raws=[template or deployment()], interpreter=Interpreter.of())
    (work,) = works_by_cluster(list(dispatch(binding(clusters={"m1": 3}, **fields), seen))).values()
    return work.but(metadata=work.metadata.but(resource_version="4", generation=1))


def member_key(work):
    return ("m1", well_known.ref_of_raw(work.spec.workload.manifests[0])._replace(uid=""))


def object_in_member(work, **changes):
    manifest = work.spec.workload.manifests[0]
    metadata = manifest["metadata"] | {"resourceVersion": "40", "uid": "there", "generation": 1}
    return {**manifest, "metadata": metadata, **changes}


@pytest.mark.parametrize(
    ("profile", "about"), [(TRIMTAB, ["Deployment"]), (UPSTREAM, ["Work", "Deployment"])], ids=["trimtab", "upstream"]
)
def test_missing_object_is_created_with_events(profile: Profile, about: list[str]) -> None:
    work = work_for()
    effects = list(execute(work, view(cluster("m1"), work, profile=profile)))
    (write,) = [w for w in effects if isinstance(w, InCluster)]
    assert write.effect == Ensure(work.spec.workload.manifests[0])
    events = [w for w in effects if isinstance(w, RecordEvent)]
    assert [event.about.kind for event in events] == about
    assert {event.reason for event in events} == {"SyncSucceed"}


def test_namespace_is_written_before_what_a_work_lists_ahead_of_it() -> None:
    work = work_for()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    template = work.spec.workload.but(manifests=(*work.spec.workload.manifests, namespace))
    work = work.but(spec=work.spec.but(workload=template))
    effects = list(execute(work, view(cluster("m1"), work)))
    written = [w.effect.wanted["kind"] for w in effects if isinstance(w, InCluster) and isinstance(w.effect, Ensure)]
    assert written == ["Namespace", "Deployment"]


def test_applied_object_is_reported_with_status_and_health() -> None:
    work = work_for()
    there = object_in_member(
        work, status={"observedGeneration": 1, "updatedReplicas": 3, "availableReplicas": 3, "replicas": 3}
    )
    effects = list(execute(work, view(cluster("m1"), work, members={member_key(work): there})))
    status = effects[0].status
    assert {c.type: c.status for c in status.conditions} == {"Dispatching": "True", "Applied": "True"}
    assert status.manifest_statuses[0].health == "Healthy"
    assert status.manifest_statuses[0].status["replicas"] == 3


def test_changed_object_is_restored_but_keeps_fields_of_the_member() -> None:
    work = work_for()
    manifest = work.spec.workload.manifests[0]
    there = object_in_member(work, spec=manifest["spec"] | {"replicas": 9})
    there["metadata"]["labels"] = there["metadata"]["labels"] | {"of-member": "yes"}
    effects = list(execute(work, view(cluster("m1"), work, members={member_key(work): there})))
    (write,) = [w for w in effects if isinstance(w, InCluster)]
    assert write.effect.wanted["spec"]["replicas"] == 3
    assert write.effect.wanted["metadata"]["labels"]["of-member"] == "yes"
    assert write.effect.wanted["metadata"]["resourceVersion"] == "40"


def test_label_removed_from_manifest_is_removed_in_member() -> None:
    work = work_for()
    there = object_in_member(work)
    managed = there["metadata"]["annotations"][well_known.MANAGED_LABELS] + ",old"
    there["metadata"] = there["metadata"] | {
        "labels": there["metadata"]["labels"] | {"old": "x"},
        "annotations": there["metadata"]["annotations"] | {well_known.MANAGED_LABELS: managed},
    }
    effects = list(execute(work, view(cluster("m1"), work, members={member_key(work): there})))
    (write,) = [w for w in effects if isinstance(w, InCluster)]
    assert "old" not in write.effect.wanted["metadata"]["labels"]


def test_defaults_of_the_member_cause_no_second_write() -> None:
    work = work_for()
    there = object_in_member(work, spec=work.spec.workload.manifests[0]["spec"] | {"filledIn": True})
    seen = view(cluster("m1"), work, members={member_key(work): there})
    (sent,) = [w for w in execute(work, seen) if isinstance(w, RememberInProcess) and w.topic is SENT]
    seen.memory[sent.topic, sent.key] = sent.value
    settled = list(execute(work, seen))
    assert not [w for w in settled if isinstance(w, InCluster)]
    (memory,) = [w for w in settled if isinstance(w, RememberInProcess) and w.topic is SETTLED]
    seen.memory[memory.topic, memory.key] = memory.value
    drifted = object_in_member(work, spec=there["spec"] | {"replicas": 1})
    seen.members = {member_key(work): drifted}
    assert [w for w in execute(work, seen) if isinstance(w, InCluster)]


def test_unmanaged_object_is_not_written() -> None:
    work = work_for()
    unmanaged = deployment() | {"metadata": {"name": "web", "namespace": "demo", "resourceVersion": "3"}}
    effects = list(execute(work, view(cluster("m1"), work, members={member_key(work): unmanaged})))
    applied = find_condition(effects[0].status.conditions, "Applied")
    assert (applied.status, applied.reason) == ("False", "AppliedFailed")
    assert "already exists in the cluster m1" in applied.message
    assert not [w for w in effects if isinstance(w, InCluster)]
    assert any(isinstance(w, RequeueAfter) for w in effects)


def test_conflict_events_have_upstream_wording_on_work_and_template() -> None:
    work = work_for()
    there = object_in_member(work)
    there["metadata"] = there["metadata"] | {"labels": {}}
    effects = list(execute(work, view(cluster("m1"), work, members={member_key(work): there})))
    why = (
        "resource(kind=Deployment, demo/web) already exists in the cluster m1 and the "
        "work.karmada.io/conflict-resolution strategy value is empty, Karmada will not manage this resource"
    )
    assert effects[0].status.conditions[1].message == f"Failed to apply all manifests (0/1): {why}"
    assert [(event.about.kind, event.message) for event in effects if isinstance(event, RecordEvent)][-2:] == [
        ("Work", f"Failed to sync work({work.namespace}/{work.name}) to cluster(m1), err: {why}"),
        ("Deployment", f"Failed to create or update resource(demo/web) in member cluster(m1): {why}"),
    ]


def test_upstream_profile_records_events_for_new_generation_without_write() -> None:
    work = work_for()
    seen = view(cluster("m1"), work, members={member_key(work): object_in_member(work)}, profile=UPSTREAM)
    effects = list(execute(work, seen))
    assert sum(isinstance(w, RecordEvent) and w.reason == "SyncSucceed" for w in effects) == 2
    for memory in (w for w in effects if isinstance(w, RememberInProcess)):
        seen.memory[memory.topic, memory.key] = memory.value
    assert not [w for w in execute(work, seen) if isinstance(w, RecordEvent) and w.reason == "SyncSucceed"]


def test_lasting_conflict_is_recorded_once_but_at_every_attempt_in_upstream_profile() -> None:
    work = work_for()
    unmanaged = deployment() | {"metadata": {"name": "web", "namespace": "demo", "resourceVersion": "3"}}
    after = next(iter(execute(work, view(cluster("m1"), work, members={member_key(work): unmanaged}))))
    for profile, expected in ((TRIMTAB, 0), (UPSTREAM, 2)):
        again = list(execute(after, view(cluster("m1"), after, members={member_key(work): unmanaged}, profile=profile)))
        assert sum(isinstance(effect, RecordEvent) for effect in again) == expected


def test_unmanaged_object_is_overwritten_with_conflict_resolution_overwrite() -> None:
    work = work_for(conflict_resolution="Overwrite")
    unmanaged = deployment() | {"metadata": {"name": "web", "namespace": "demo", "resourceVersion": "3"}}
    effects = list(execute(work, view(cluster("m1"), work, members={member_key(work): unmanaged})))
    assert [w for w in effects if isinstance(w, InCluster)]


def test_write_refused_by_member_is_reported_and_retried() -> None:
    work = work_for()
    refused = ReconcileFault(422, "Invalid", "spec is wrong", "m1", 1)
    effects = list(execute(work, view(cluster("m1"), work, fault=refused)))
    assert "(0/1): spec is wrong" in find_condition(effects[0].status.conditions, "Applied").message
    assert [w for w in effects if isinstance(w, InCluster)]


def test_suspended_work_is_not_applied() -> None:
    work = work_for()
    work = work.but(spec=work.spec.but(suspend_dispatching=True))
    (updated,) = execute(work, view(cluster("m1"), work))
    assert find_condition(updated.status.conditions, "Dispatching").reason == "SuspendDispatching"
    (updated, event) = execute(work, view(cluster("m1"), work, profile=UPSTREAM))
    assert find_condition(updated.status.conditions, "Dispatching").reason == "SuspendDispatching"
    assert event.reason == "WorkDispatching"


def test_work_suspended_after_apply_still_reports_status() -> None:
    work = work_for()
    applied = Condition(type="Applied", status="True", last_transition_time=NOON)
    work = work.but(spec=work.spec.but(suspend_dispatching=True), status=work.status.but(conditions=(applied,)))
    there = object_in_member(work, status={"observedGeneration": 1, "replicas": 9})
    effects = list(execute(work, view(cluster("m1"), work, members={member_key(work): there})))
    assert not [w for w in effects if isinstance(w, InCluster)]
    assert effects[0].status.manifest_statuses[0].status["replicas"] == 9
    assert {c.type: c.status for c in effects[0].status.conditions} == {"Dispatching": "False", "Applied": "True"}


def test_a_work_waits_for_a_cluster_that_is_not_ready() -> None:
    work, dark = work_for(), cluster("m1", ready="False")
    (updated,) = execute(work, view(dark, work))
    assert {c.type: c.status for c in updated.status.conditions} == {"Dispatching": "True"}
    _, event, requeue = execute(work, view(dark, work, profile=UPSTREAM))
    assert event.reason == "WorkDispatching"
    assert isinstance(requeue, RequeueAfter)


def test_only_works_that_nothing_wakes_ask_again_for_a_cluster_that_is_not_ready() -> None:
    work, dark = deleted_work(work_for()), cluster("m1", ready="False")
    leaving = dark.but(metadata=dark.metadata.but(deletion_timestamp=NOON))
    namespace = Namespace(metadata=Meta(name=work.namespace))
    assert list(execute(work, view(dark, work))) == []
    assert list(execute(work, view(dark, work, profile=UPSTREAM))) == [RequeueAfter(10.0)]
    assert list(execute(work, view(leaving, work, namespace))) == [RequeueAfter(10.0)]


def test_a_cluster_that_is_ready_again_wakes_works_by_the_profile_of_their_namespace() -> None:
    work = work_for()
    seen = view(work, profile=UPSTREAM)
    seen.profiles = {work.metadata.annotations[well_known.RB_NAMESPACE]: TRIMTAB}
    assert [key.name for key in works_of_cluster(cluster("m1", ready="False"), cluster("m1"), seen)] == [work.name]


def deleted_work(work):
    return work.but(metadata=work.metadata.but(deletion_timestamp=NOON - timedelta(seconds=1)))


def test_deleted_work_deletes_managed_object() -> None:
    work = deleted_work(work_for())
    deletion, finalized = execute(work, view(cluster("m1"), work, members={member_key(work): object_in_member(work)}))
    assert isinstance(deletion, InCluster)
    assert isinstance(deletion.effect, Delete)
    assert finalized.metadata.finalizers == ()


def test_deleted_work_keeps_unmanaged_object() -> None:
    work = deleted_work(work_for())
    unmanaged = {member_key(work): deployment()}
    (finalized,) = execute(work, view(cluster("m1"), work, members=unmanaged))
    assert finalized.metadata.finalizers == ()


def test_unknown_object_is_fetched_before_deletion() -> None:
    work = deleted_work(work_for())
    (fetch,) = execute(work, view(cluster("m1"), work))
    assert isinstance(fetch, Fetch)


def test_preserved_object_only_loses_tracking_metadata() -> None:
    work = work_for(preserve_resources_on_deletion=True)
    kept, _ = execute(deleted_work(work), view(cluster("m1"), work, members={member_key(work): object_in_member(work)}))
    assert isinstance(kept, InCluster)
    metadata = kept.effect.wanted["metadata"]
    assert well_known.MANAGED not in metadata["labels"]
    assert list(metadata["annotations"]) == [well_known.CONFLICT_RESOLUTION]


def test_pull_cluster_is_served_only_by_its_agent() -> None:
    work = work_for()
    pull = cluster("m1", sync_mode="Pull")
    assert list(execute(work, view(pull, work))) == []
    assert list(execute(work, view(pull, work, settings={"agent": "m1"})))


def with_annotations(work, **annotations):
    """The Work with annotations on its only manifest."""
    (manifest,) = work.spec.workload.manifests
    marked = well_known.with_metadata(manifest, labels={}, annotations=annotations)
    return work.but(spec=work.spec.but(workload=work.spec.workload.but(manifests=(marked,))))


def test_create_only_object_is_not_updated() -> None:
    work = with_annotations(work_for(), **{well_known.UPDATE_STRATEGY: "CreateOnly"})
    assert any(isinstance(effect, InCluster) for effect in execute(work, view(cluster("m1"), work)))
    there = object_in_member(work, spec={"replicas": 9})
    effects = list(execute(work, view(cluster("m1"), work, members={member_key(work): there})))
    assert not [effect for effect in effects if isinstance(effect, InCluster)]
    assert is_condition_true(effects[0].status.conditions, "Applied")


def test_read_only_object_is_fetched_and_reported_but_never_written_or_deleted() -> None:
    work = with_annotations(work_for(), **{well_known.UPDATE_STRATEGY: "ReadOnly"})
    where, there = member_key(work), object_in_member(work, spec={"replicas": 9})
    first = list(execute(work, view(cluster("m1"), work)))
    assert [type(effect) for effect in first] == [RememberInProcess, Fetch]
    found = view(cluster("m1"), work, members={where: there})
    nothing = view(cluster("m1"), work)
    found.memory[FETCHED, where] = nothing.memory[FETCHED, where] = NOON
    effects = list(execute(work, found))
    assert not [effect for effect in effects if isinstance(effect, InCluster)]
    assert work.status != next(w for w in effects if type(w) is type(work)).status
    (updated,) = [effect for effect in execute(work, nothing) if type(effect) is type(work)]
    assert "does not exist" in find_condition(updated.status.conditions, "Applied").message
    leaving = work.but(metadata=work.metadata.but(deletion_timestamp=NOON))
    assert not [w for w in execute(leaving, view(cluster("m1"), members={where: there})) if isinstance(w, InCluster)]


def test_server_side_apply_sends_missing_fields_and_ignores_fields_of_others() -> None:
    work = with_annotations(
        work_for(), **{well_known.UPDATE_STRATEGY: "ServerSideApply", well_known.FIELD_MANAGER: "work-agent-x!"}
    )
    (manifest,) = work.spec.workload.manifests
    (write,) = [w for w in execute(work, view(cluster("m1"), work)) if isinstance(w, InCluster)]
    assert write.effect == Ensure(manifest, apply_as="work-agent-x", force=True)
    there = object_in_member(work, spec=manifest["spec"] | {"minReadySeconds": 5})
    same = execute(work, view(cluster("m1"), work, members={member_key(work): there}))
    assert not [w for w in same if isinstance(w, InCluster)]
    changed = object_in_member(work, spec=manifest["spec"] | {"replicas": 9})
    effects = execute(work, view(cluster("m1"), work, members={member_key(work): changed}))
    assert [w.effect.apply_as for w in effects if isinstance(w, InCluster)] == ["work-agent-x"]


def test_orphan_on_deletion_releases_object_instead_of_deleting_it() -> None:
    work = with_annotations(work_for(), **{well_known.ON_DELETION: "Orphan"})
    leaving = work.but(metadata=work.metadata.but(deletion_timestamp=NOON))
    effects = execute(leaving, view(cluster("m1"), members={member_key(work): object_in_member(work)}))
    (write,) = [w for w in effects if isinstance(w, InCluster)]
    assert isinstance(write.effect, Ensure)
    assert well_known.MANAGED not in write.effect.wanted["metadata"]["labels"]


def test_object_of_removed_manifest_is_deleted() -> None:
    work = work_for()
    there = object_in_member(work)
    (report,) = [
        w for w in execute(work, view(cluster("m1"), members={member_key(work): there})) if type(w) is type(work)
    ]
    without = report.but(spec=report.spec.but(workload=report.spec.workload.but(manifests=())))
    effects = execute(without, view(cluster("m1"), members={member_key(work): there}))
    (write,) = [w for w in effects if isinstance(w, InCluster)]
    assert write.effect == Delete(member_key(work)[1])


def test_first_change_of_object_without_member_defaults_is_restored() -> None:
    work = work_for()
    (manifest,) = work.spec.workload.manifests
    memory = {("sent", member_key(work)): fingerprint(prune(manifest))}
    exact = view(cluster("m1"), work, members={member_key(work): object_in_member(work)})
    exact.memory.update(memory)
    memory |= {(w.topic, w.key): w.value for w in execute(work, exact) if isinstance(w, RememberInProcess)}
    drifted = view(cluster("m1"), work, members={member_key(work): object_in_member(work, spec={"replicas": 9})})
    drifted.memory.update(memory)
    assert [w for w in execute(work, drifted) if isinstance(w, InCluster)]


def work_with_executor(account: str):
    work = work_for()
    annotations = work.metadata.annotations | {well_known.EXECUTOR: account}
    return work.but(metadata=work.metadata.but(annotations=annotations))


def test_access_of_executor_is_checked_before_any_write() -> None:
    work = work_with_executor("default/deployer")
    (check,) = execute(work, view(cluster("m1"), work))
    assert check == CheckAccess(
        "m1",
        "system:serviceaccount:default:deployer",
        member_key(work)[1],
        ("create", "update", "patch", "get", "delete"),
    )
    seen = view(cluster("m1"), work)
    seen.memory[ACCESS, check] = AccessAnswer(NOON, allowed=True)
    assert [type(effect) for effect in execute(work, seen) if isinstance(effect, InCluster)] == [InCluster]
    seen.memory[ACCESS, check] = AccessAnswer(NOON - timedelta(seconds=60), allowed=True)
    assert list(execute(work, seen)) == [check]


def test_forbidden_manifest_is_reported_and_not_applied() -> None:
    work = work_with_executor("default/deployer")
    seen = view(cluster("m1"), work)
    (check,) = execute(work, seen)
    seen.memory[ACCESS, check] = AccessAnswer(NOON, allowed=False)
    effects = list(execute(work, seen))
    assert [effect for effect in effects if isinstance(effect, InCluster)] == []
    (after,) = [effect for effect in effects if isinstance(effect, type(work))]
    (applied,) = [c for c in after.status.conditions if c.type == "Applied"]
    assert (applied.status, "not allowed to apply the resource apps Deployment" in applied.message) == ("False", True)


def work_with_strategy(**notes: str):
    work = work_for()
    (manifest,) = work.spec.workload.manifests
    marked = well_known.with_metadata(
        manifest, labels={}, annotations={f"trimtab.dev/{k.replace('_', '-')}": v for k, v in notes.items()}
    )
    return work.but(spec=work.spec.but(workload=work.spec.workload.but(manifests=(marked,))))


def test_completed_manifest_is_not_written_even_when_object_is_deleted() -> None:
    work = work_with_strategy(update_strategy="Completed")
    for there in (None, object_in_member(work, spec={"replicas": 77})):
        effects = list(execute(work, view(cluster("m1"), work, members={member_key(work): there})))
        assert [effect for effect in effects if isinstance(effect, InCluster)] == []


def writes_for(work, there) -> list[Ensure]:
    effects = execute(work, view(cluster("m1"), work, members={member_key(work): there}))
    return [effect.effect for effect in effects if isinstance(effect, InCluster)]


def test_ignored_fields_keep_values_of_the_member() -> None:
    rules = '[{"condition":"OnSpokePresent","jsonPaths":[".spec.replicas"]}]'
    work = work_with_strategy(update_strategy="ServerSideApply", ignore_fields=rules)
    (first,) = writes_for(work, None)
    assert first.wanted["spec"]["replicas"] == 3
    (manifest,) = work.spec.workload.manifests
    scaled = object_in_member(work, spec=manifest["spec"] | {"replicas": 9})
    assert writes_for(work, scaled) == []
    (again,) = writes_for(work, {**scaled, "spec": {**scaled["spec"], "template": {}}})
    assert again.wanted["spec"]["replicas"] == 9


def test_on_spoke_change_fields_are_set_when_manifest_changes() -> None:
    rules = '[{"condition":"OnSpokeChange","jsonPaths":[".spec.replicas"]}]'
    work = work_with_strategy(update_strategy="ServerSideApply", ignore_fields=rules)
    (manifest,) = work.spec.workload.manifests
    scaled = object_in_member(work, spec=manifest["spec"] | {"replicas": 9})
    assert writes_for(work, scaled) == []
    old = well_known.with_metadata(scaled, labels={}, annotations={well_known.CONFIG_HASH: "of an older manifest"})
    (again,) = writes_for(work, old)
    assert again.wanted["spec"]["replicas"] == 3


def test_invalid_ignore_path_is_reported_and_nothing_is_applied() -> None:
    work = work_with_strategy(
        update_strategy="ServerSideApply", ignore_fields='[{"condition":"OnSpokePresent","jqPathExpressions":["keys"]}]'
    )
    effects = list(execute(work, view(cluster("m1"), work, members={member_key(work): object_in_member(work)})))
    assert [effect for effect in effects if isinstance(effect, InCluster)] == []
    (after,) = [effect for effect in effects if isinstance(effect, type(work))]
    assert any("JQ expression error" in c.message for c in after.status.conditions)


def suspended_work(applied: str = "True"):
    work = work_for()
    condition = Condition(type="Applied", status=applied, last_transition_time=NOON)
    return work.but(spec=work.spec.but(suspend_dispatching=True), status=work.status.but(conditions=(condition,)))


def reported_manifests(work, there, member=None) -> int:
    snapshot = view(member or cluster("m1"), work, members={member_key(work): there} if there is not None else {})
    (updated,) = [effect for effect in execute(work, snapshot) if isinstance(effect, Work)]
    return len(updated.status.manifest_statuses)


def test_suspended_work_reports_only_objects_that_were_applied_and_are_its_own() -> None:
    work = suspended_work()
    there = object_in_member(work)
    assert reported_manifests(work, there) == 1
    assert reported_manifests(suspended_work("False"), there) == 0
    assert reported_manifests(work, there, cluster("m1", ready="False")) == 0
    assert reported_manifests(work, None) == 0
    unmanaged = well_known.with_metadata(there, labels={well_known.MANAGED: None}, annotations={})
    assert reported_manifests(work, unmanaged) == 0


def test_work_of_no_cluster_is_left_alone() -> None:
    work = work_for()
    misplaced = work.but(metadata=work.metadata.but(namespace="default"))
    assert list(execute(misplaced, view(cluster("m1"), misplaced))) == []


def test_recovery_or_deletion_of_a_cluster_concerns_its_works_only() -> None:
    work = work_for()
    other = work.but(metadata=work.metadata.but(namespace="karmada-es-m2"))
    ready, dark = cluster("m1"), cluster("m1", ready="False")
    gone = dark.but(metadata=dark.metadata.but(deletion_timestamp=NOON))
    for old, new, profile, concerned in (
        (dark, ready, TRIMTAB, True),
        (None, ready, TRIMTAB, True),
        (ready, ready, TRIMTAB, False),
        (ready, dark, TRIMTAB, False),
        (dark, ready, UPSTREAM, False),
        (dark, gone, UPSTREAM, True),
        (dark, None, TRIMTAB, True),
        (dark, None, UPSTREAM, False),
    ):
        keys = list(works_of_cluster(old, new, view(work, other, profile=profile)))
        assert [(key.namespace, key.name) for key in keys] == ([(work.namespace, work.name)] if concerned else [])


def test_object_concerns_the_work_that_it_names_in_its_own_cluster() -> None:
    work = work_for()
    there = object_in_member(work)
    nameless = well_known.with_metadata(there, labels={}, annotations={well_known.WORK_NAME: None})
    assert [key.name for key in work_of_object("m1", None, there, view())] == [work.name]
    assert [key.name for key in work_of_object("m1", there, None, view())] == [work.name]
    assert [key.name for key in work_of_object("m1", there, nameless, view())] == [work.name]
    assert list(work_of_object("m2", None, there, view())) == []
    assert list(work_of_object("m1", None, nameless, view())) == []


def test_only_a_new_generation_or_the_deletion_of_a_work_is_a_change() -> None:
    work = work_for()
    reported = work.but(status=work.status.but(conditions=(Condition(type="Applied", status="True"),)))
    newer = work.but(metadata=work.metadata.but(generation=2))
    assert not work_changed(work, reported)
    assert work_changed(None, work)
    assert work_changed(work, newer)
    assert work_changed(work, deleted_work(work))
