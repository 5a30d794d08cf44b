"""The member has what the Work says, and the Work says how it fares there."""

from datetime import timedelta

from builders import NOON, binding, cluster, deployment, works
from views import FakeView

from trimtab.api.profile import TRIMTAB, UPSTREAM
from trimtab.api.value import Condition
from trimtab.controllers import well_known
from trimtab.controllers.contract import Again, Fault, Gone, Inquire, Look, Make, Note, Remember, Within
from trimtab.controllers.propagation.dispatch import dispatch
from trimtab.controllers.propagation.execute import execute, fingerprint
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.prune import prune


def view(*things, members=None, **more) -> FakeView:
    return FakeView(things, members=members or {}, parts={"interpreter": Interpreter.of()}, **more)


def work_for(template=None, **fields):
    seen = FakeView([], raws=[template or deployment()], parts={"interpreter": Interpreter.of()})
    (work,) = works(list(dispatch(binding(clusters={"m1": 3}, **fields), seen))).values()
    return work.but(metadata=work.metadata.but(resource_version="4", generation=1))


def place(work):
    return ("m1", well_known.ref_of_raw(work.spec.workload.manifests[0])._replace(uid=""))


def live(work, **changes):
    manifest = work.spec.workload.manifests[0]
    metadata = manifest["metadata"] | {"resourceVersion": "40", "uid": "there", "generation": 1}
    return {**manifest, "metadata": metadata, **changes}


def test_a_missing_object_is_created_and_told() -> None:
    work = work_for()
    wishes = list(execute(work, view(cluster("m1"), work)))
    (write,) = [w for w in wishes if isinstance(w, Within)]
    assert write.wish == Make(work.spec.workload.manifests[0])
    assert [w.reason for w in wishes if isinstance(w, Note)] == ["SyncSucceed", "SyncSucceed"]


def test_an_object_in_place_is_reported_with_status_and_health() -> None:
    work = work_for()
    there = live(work, status={"observedGeneration": 1, "updatedReplicas": 3, "availableReplicas": 3, "replicas": 3})
    wishes = list(execute(work, view(cluster("m1"), work, members={place(work): there})))
    status = wishes[0].status
    assert {c.type: c.status for c in status.conditions} == {"Dispatching": "True", "Applied": "True"}
    assert status.manifest_statuses[0].health == "Healthy"
    assert status.manifest_statuses[0].status["replicas"] == 3


def test_a_changed_object_is_put_back_but_keeps_what_is_the_members_own() -> None:
    work = work_for()
    manifest = work.spec.workload.manifests[0]
    there = live(work, spec=manifest["spec"] | {"replicas": 9})
    there["metadata"]["labels"] = there["metadata"]["labels"] | {"theirs": "yes"}
    wishes = list(execute(work, view(cluster("m1"), work, members={place(work): there})))
    (write,) = [w for w in wishes if isinstance(w, Within)]
    assert write.wish.wanted["spec"]["replicas"] == 3
    assert write.wish.wanted["metadata"]["labels"]["theirs"] == "yes"
    assert write.wish.wanted["metadata"]["resourceVersion"] == "40"


def test_a_label_we_no_longer_set_is_taken_away() -> None:
    work = work_for()
    there = live(work)
    ledger = there["metadata"]["annotations"][well_known.MANAGED_LABELS] + ",old"
    there["metadata"] = there["metadata"] | {
        "labels": there["metadata"]["labels"] | {"old": "x"},
        "annotations": there["metadata"]["annotations"] | {well_known.MANAGED_LABELS: ledger},
    }
    wishes = list(execute(work, view(cluster("m1"), work, members={place(work): there})))
    (write,) = [w for w in wishes if isinstance(w, Within)]
    assert "old" not in write.wish.wanted["metadata"]["labels"]


def test_what_the_member_defaulted_on_top_of_what_we_sent_is_no_reason_to_send_it_again() -> None:
    work = work_for()
    there = live(work, spec=work.spec.workload.manifests[0]["spec"] | {"filledIn": True})
    seen = view(cluster("m1"), work, members={place(work): there})
    (sent,) = [w for w in execute(work, seen) if isinstance(w, Remember) and w.topic == "sent"]
    seen.memory[sent.topic, sent.key] = sent.value
    settled = list(execute(work, seen))
    assert not [w for w in settled if isinstance(w, Within)]
    (memory,) = [w for w in settled if isinstance(w, Remember) and w.topic == "settled"]
    seen.memory[memory.topic, memory.key] = memory.value
    drifted = live(work, spec=there["spec"] | {"replicas": 1})
    seen.members = {place(work): drifted}
    assert [w for w in execute(work, seen) if isinstance(w, Within)]


def test_an_object_of_somebody_else_is_not_touched() -> None:
    work = work_for()
    foreign = deployment() | {"metadata": {"name": "web", "namespace": "demo", "resourceVersion": "3"}}
    wishes = list(execute(work, view(cluster("m1"), work, members={place(work): foreign})))
    applied = well_known.condition_of(wishes[0].status.conditions, "Applied")
    assert (applied.status, applied.reason) == ("False", "AppliedFailed")
    assert "already exists in the cluster m1" in applied.message
    assert not [w for w in wishes if isinstance(w, Within)]
    assert any(isinstance(w, Again) for w in wishes)


def test_a_refusal_is_told_in_the_words_of_upstream_to_the_work_and_to_the_template() -> None:
    work = work_for()
    there = live(work)
    there["metadata"] = there["metadata"] | {"labels": {}}
    wishes = list(execute(work, view(cluster("m1"), work, members={place(work): there})))
    why = (
        "resource(kind=Deployment, demo/web) already exists in the cluster m1 and the "
        "work.karmada.io/conflict-resolution strategy value is empty, Karmada will not manage this resource"
    )
    assert wishes[0].status.conditions[1].message == f"Failed to apply all manifests (0/1): {why}"
    assert [(note.about.kind, note.message) for note in wishes if isinstance(note, Note)][-2:] == [
        ("Work", f"Failed to sync work({work.namespace}/{work.name}) to cluster(m1), err: {why}"),
        ("Deployment", f"Failed to create or update resource(demo/web) in member cluster(m1): {why}"),
    ]


def test_in_the_profile_upstream_a_new_generation_is_told_of_even_when_the_member_needs_no_write() -> None:
    work = work_for()
    seen = view(cluster("m1"), work, members={place(work): live(work)}, profile=UPSTREAM)
    wishes = list(execute(work, seen))
    assert sum(isinstance(w, Note) and w.reason == "SyncSucceed" for w in wishes) == 2
    for memory in (w for w in wishes if isinstance(w, Remember)):
        seen.memory[memory.topic, memory.key] = memory.value
    assert not [w for w in execute(work, seen) if isinstance(w, Note) and w.reason == "SyncSucceed"]


def test_a_refusal_that_lasts_is_told_once_and_in_the_profile_upstream_at_every_attempt() -> None:
    work = work_for()
    foreign = deployment() | {"metadata": {"name": "web", "namespace": "demo", "resourceVersion": "3"}}
    after = next(iter(execute(work, view(cluster("m1"), work, members={place(work): foreign}))))
    for profile, told in ((TRIMTAB, 0), (UPSTREAM, 2)):
        again = list(execute(after, view(cluster("m1"), after, members={place(work): foreign}, profile=profile)))
        assert sum(isinstance(wish, Note) for wish in again) == told


def test_unless_the_policy_says_overwrite() -> None:
    work = work_for(conflict_resolution="Overwrite")
    foreign = deployment() | {"metadata": {"name": "web", "namespace": "demo", "resourceVersion": "3"}}
    wishes = list(execute(work, view(cluster("m1"), work, members={place(work): foreign})))
    assert [w for w in wishes if isinstance(w, Within)]


def test_a_refusal_by_the_member_is_written_down_and_tried_again() -> None:
    work = work_for()
    refused = Fault(422, "Invalid", "spec is wrong", "m1", 1)
    wishes = list(execute(work, view(cluster("m1"), work, fault=refused)))
    assert "(0/1): spec is wrong" in well_known.condition_of(wishes[0].status.conditions, "Applied").message
    assert [w for w in wishes if isinstance(w, Within)]


def test_a_suspended_work_is_not_sent() -> None:
    work = work_for()
    work = work.but(spec=work.spec.but(suspend_dispatching=True))
    (said, note) = execute(work, view(cluster("m1"), work))
    assert well_known.condition_of(said.status.conditions, "Dispatching").reason == "SuspendDispatching"
    assert note.reason == "WorkDispatching"


def test_a_work_that_was_suspended_later_still_tells_how_its_object_fares() -> None:
    work = work_for()
    applied = Condition(type="Applied", status="True", last_transition_time=NOON)
    work = work.but(spec=work.spec.but(suspend_dispatching=True), status=work.status.but(conditions=(applied,)))
    there = live(work, status={"observedGeneration": 1, "replicas": 9})
    wishes = list(execute(work, view(cluster("m1"), work, members={place(work): there})))
    assert not [w for w in wishes if isinstance(w, Within)]
    assert wishes[0].status.manifest_statuses[0].status["replicas"] == 9
    assert {c.type: c.status for c in wishes[0].status.conditions} == {"Dispatching": "False", "Applied": "True"}


def test_a_cluster_that_does_not_answer_is_waited_for() -> None:
    work = work_for()
    said, note, wait = execute(work, view(cluster("m1", ready="False"), work))
    assert {c.type: c.status for c in said.status.conditions} == {"Dispatching": "True"}
    assert note.reason == "WorkDispatching"
    assert isinstance(wait, Again)


def dying(work):
    return work.but(metadata=work.metadata.but(deletion_timestamp=NOON - timedelta(seconds=1)))


def test_a_deleted_work_takes_our_object_with_it() -> None:
    work = dying(work_for())
    gone, released = execute(work, view(cluster("m1"), work, members={place(work): live(work)}))
    assert isinstance(gone.wish, Gone)
    assert released.metadata.finalizers == ()


def test_a_deleted_work_leaves_the_object_of_somebody_else() -> None:
    work = dying(work_for())
    foreign = {place(work): deployment()}
    (released,) = execute(work, view(cluster("m1"), work, members=foreign))
    assert released.metadata.finalizers == ()


def test_before_deleting_it_looks_whose_object_it_is() -> None:
    work = dying(work_for())
    (look,) = execute(work, view(cluster("m1"), work))
    assert isinstance(look, Look)


def test_an_object_that_shall_stay_only_loses_our_marks() -> None:
    work = work_for(preserve_resources_on_deletion=True)
    kept, _ = execute(dying(work), view(cluster("m1"), work, members={place(work): live(work)}))
    metadata = kept.wish.wanted["metadata"]
    assert well_known.MANAGED not in metadata["labels"]
    assert list(metadata["annotations"]) == [well_known.CONFLICT_RESOLUTION]


def test_a_pull_cluster_is_served_by_its_agent_alone() -> None:
    work = work_for()
    pull = cluster("m1", sync_mode="Pull")
    assert list(execute(work, view(pull, work))) == []
    assert list(execute(work, view(pull, work, settings={"agent": "m1"})))


def noted(work, **annotations):
    """The Work with notes on its only manifest."""
    (manifest,) = work.spec.workload.manifests
    marked = well_known.remarked(manifest, labels={}, annotations=annotations)
    return work.but(spec=work.spec.but(workload=work.spec.workload.but(manifests=(marked,))))


def test_what_is_only_created_is_left_alone_once_it_is_there() -> None:
    work = noted(work_for(), **{well_known.UPDATE_STRATEGY: "CreateOnly"})
    assert any(isinstance(wish, Within) for wish in execute(work, view(cluster("m1"), work)))
    there = live(work, spec={"replicas": 9})
    wishes = list(execute(work, view(cluster("m1"), work, members={place(work): there})))
    assert not [wish for wish in wishes if isinstance(wish, Within)]
    assert well_known.is_true(wishes[0].status.conditions, "Applied")


def test_what_is_only_read_is_fetched_reported_and_never_written_or_deleted() -> None:
    work = noted(work_for(), **{well_known.UPDATE_STRATEGY: "ReadOnly"})
    where, there = place(work), live(work, spec={"replicas": 9})
    first = list(execute(work, view(cluster("m1"), work)))
    assert [type(wish) for wish in first] == [Remember, Look]
    found = view(cluster("m1"), work, members={where: there})
    nothing = view(cluster("m1"), work)
    found.memory["looked", where] = nothing.memory["looked", where] = NOON
    wishes = list(execute(work, found))
    assert not [wish for wish in wishes if isinstance(wish, Within)]
    assert work.status != next(w for w in wishes if type(w) is type(work)).status
    (told,) = [wish for wish in execute(work, nothing) if type(wish) is type(work)]
    assert "does not exist" in well_known.condition_of(told.status.conditions, "Applied").message
    leaving = work.but(metadata=work.metadata.but(deletion_timestamp=NOON))
    assert not [w for w in execute(leaving, view(cluster("m1"), members={where: there})) if isinstance(w, Within)]


def test_server_side_apply_sends_what_is_not_there_and_leaves_the_fields_of_others() -> None:
    work = noted(
        work_for(), **{well_known.UPDATE_STRATEGY: "ServerSideApply", well_known.FIELD_MANAGER: "work-agent-x!"}
    )
    (manifest,) = work.spec.workload.manifests
    (write,) = [w for w in execute(work, view(cluster("m1"), work)) if isinstance(w, Within)]
    assert write.wish == Make(manifest, apply_as="work-agent-x", force=True)
    there = live(work, spec=manifest["spec"] | {"minReadySeconds": 5})
    same = execute(work, view(cluster("m1"), work, members={place(work): there}))
    assert not [w for w in same if isinstance(w, Within)]
    changed = live(work, spec=manifest["spec"] | {"replicas": 9})
    wishes = execute(work, view(cluster("m1"), work, members={place(work): changed}))
    assert [w.wish.apply_as for w in wishes if isinstance(w, Within)] == ["work-agent-x"]


def test_a_manifest_that_is_to_stay_is_released_and_not_deleted() -> None:
    work = noted(work_for(), **{well_known.ON_DELETION: "Orphan"})
    leaving = work.but(metadata=work.metadata.but(deletion_timestamp=NOON))
    wishes = execute(leaving, view(cluster("m1"), members={place(work): live(work)}))
    (write,) = [w for w in wishes if isinstance(w, Within)]
    assert isinstance(write.wish, Make)
    assert well_known.MANAGED not in write.wish.wanted["metadata"]["labels"]


def test_what_a_work_no_longer_has_leaves_the_member() -> None:
    work = work_for()
    there = live(work)
    (report,) = [w for w in execute(work, view(cluster("m1"), members={place(work): there})) if type(w) is type(work)]
    without = report.but(spec=report.spec.but(workload=report.spec.workload.but(manifests=())))
    wishes = execute(without, view(cluster("m1"), members={place(work): there}))
    (write,) = [w for w in wishes if isinstance(w, Within)]
    assert write.wish == Gone(place(work)[1])


def test_the_first_change_of_an_object_that_was_exactly_as_sent_is_put_back() -> None:
    work = work_for()
    (manifest,) = work.spec.workload.manifests
    memory = {("sent", place(work)): fingerprint(prune(manifest))}
    exact = view(cluster("m1"), work, members={place(work): live(work)})
    exact.memory.update(memory)
    memory |= {(w.topic, w.key): w.value for w in execute(work, exact) if isinstance(w, Remember)}
    drifted = view(cluster("m1"), work, members={place(work): live(work, spec={"replicas": 9})})
    drifted.memory.update(memory)
    assert [w for w in execute(work, drifted) if isinstance(w, Within)]


def executed_by(account: str):
    work = work_for()
    annotations = work.metadata.annotations | {well_known.EXECUTOR: account}
    return work.but(metadata=work.metadata.but(annotations=annotations))


def test_an_executor_is_asked_about_before_anything_is_sent() -> None:
    work = executed_by("default/deployer")
    (inquiry,) = execute(work, view(cluster("m1"), work))
    assert inquiry == Inquire(
        "m1",
        "system:serviceaccount:default:deployer",
        place(work)[1],
        ("create", "update", "patch", "get", "delete"),
    )
    around = view(cluster("m1"), work)
    around.memory["allowed", inquiry] = (NOON, True)
    assert [type(wish) for wish in execute(work, around) if isinstance(wish, Within)] == [Within]
    around.memory["allowed", inquiry] = (NOON - timedelta(seconds=60), True)
    assert list(execute(work, around)) == [inquiry]


def test_what_the_executor_may_not_do_is_not_done_and_told() -> None:
    work = executed_by("default/deployer")
    around = view(cluster("m1"), work)
    (inquiry,) = execute(work, around)
    around.memory["allowed", inquiry] = (NOON, False)
    wishes = list(execute(work, around))
    assert [wish for wish in wishes if isinstance(wish, Within)] == []
    (after,) = [wish for wish in wishes if isinstance(wish, type(work))]
    (applied,) = [c for c in after.status.conditions if c.type == "Applied"]
    assert (applied.status, "not allowed to apply the resource apps Deployment" in applied.message) == ("False", True)


def with_notes(**notes: str):
    work = work_for()
    (manifest,) = work.spec.workload.manifests
    marked = well_known.remarked(
        manifest, labels={}, annotations={f"trimtab.dev/{k.replace('_', '-')}": v for k, v in notes.items()}
    )
    return work.but(spec=work.spec.but(workload=work.spec.workload.but(manifests=(marked,))))


def test_what_is_completed_is_left_alone_even_when_it_is_gone() -> None:
    work = with_notes(update_strategy="Completed")
    for there in (None, live(work, spec={"replicas": 77})):
        wishes = list(execute(work, view(cluster("m1"), work, members={place(work): there})))
        assert [wish for wish in wishes if isinstance(wish, Within)] == []


def applied(work, there) -> list[Make]:
    wishes = execute(work, view(cluster("m1"), work, members={place(work): there}))
    return [wish.wish for wish in wishes if isinstance(wish, Within)]


def test_ignored_fields_are_sent_as_they_are_in_the_member() -> None:
    rules = '[{"condition":"OnSpokePresent","jsonPaths":[".spec.replicas"]}]'
    work = with_notes(update_strategy="ServerSideApply", ignore_fields=rules)
    (first,) = applied(work, None)
    assert first.wanted["spec"]["replicas"] == 3
    (manifest,) = work.spec.workload.manifests
    scaled = live(work, spec=manifest["spec"] | {"replicas": 9})
    assert applied(work, scaled) == []
    (again,) = applied(work, {**scaled, "spec": {**scaled["spec"], "template": {}}})
    assert again.wanted["spec"]["replicas"] == 9


def test_fields_that_may_change_in_the_member_are_set_when_the_manifest_changes() -> None:
    rules = '[{"condition":"OnSpokeChange","jsonPaths":[".spec.replicas"]}]'
    work = with_notes(update_strategy="ServerSideApply", ignore_fields=rules)
    (manifest,) = work.spec.workload.manifests
    scaled = live(work, spec=manifest["spec"] | {"replicas": 9})
    assert applied(work, scaled) == []
    old = well_known.remarked(scaled, labels={}, annotations={well_known.CONFIG_HASH: "of an older manifest"})
    (again,) = applied(work, old)
    assert again.wanted["spec"]["replicas"] == 3


def test_a_path_that_cannot_be_read_is_told_and_nothing_is_sent() -> None:
    work = with_notes(
        update_strategy="ServerSideApply", ignore_fields='[{"condition":"OnSpokePresent","jqPathExpressions":["keys"]}]'
    )
    wishes = list(execute(work, view(cluster("m1"), work, members={place(work): live(work)})))
    assert [wish for wish in wishes if isinstance(wish, Within)] == []
    (after,) = [wish for wish in wishes if isinstance(wish, type(work))]
    assert any("JQ expression error" in c.message for c in after.status.conditions)
