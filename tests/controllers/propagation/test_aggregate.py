"""The statuses of Works become the status of the binding and of the template."""

from datetime import timedelta

from builders import NOON, binding, cluster, deployment, works_by_cluster
from views import FakeView

from trimtab.api.kinds.policy import ApplicationFailoverBehavior, FailoverBehavior
from trimtab.api.kinds.work import ManifestStatus, ResourceBinding, WorkStatus
from trimtab.api.profile import TRIMTAB, UPSTREAM
from trimtab.api.value import Condition
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.contract import Ensure, RememberInProcess, RequeueAfter
from trimtab.controllers.propagation.aggregate import aggregate, binding_of_reported_work, needs_report
from trimtab.controllers.propagation.dispatch import dispatch
from trimtab.interpret.interpreter import Interpreter

SCHEDULED = Condition(type="Scheduled", status="True", reason="Success", last_transition_time=NOON)
READY = {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 2}


def with_applied_status(work, health="Healthy", **status):
    conditions = (Condition(type="Applied", status="True", last_transition_time=NOON),)
    numbers = READY | {"generation": 1, "observedGeneration": 1, "resourceTemplateGeneration": 1} | status
    return work.but(
        metadata=work.metadata.but(resource_version="4"),
        status=WorkStatus(conditions=conditions, manifest_statuses=(ManifestStatus(status=numbers, health=health),)),
    )


def scheduled_binding(*shares, profile=None, **fields):
    bare = binding(clusters=dict(shares), **fields)
    placed = bare.but(status=bare.status.but(conditions=(*bare.status.conditions, SCHEDULED)))
    seen = FakeView([], raws=[deployment()], interpreter=Interpreter.of())
    made = works_by_cluster(list(dispatch(placed, seen)))
    clusters = [cluster(name) for name, _ in shares]
    more = {"profile": profile} if profile else {}

    def view(*statuses):
        return FakeView([*clusters, *statuses], raws=[deployment()], interpreter=Interpreter.of(), **more)

    return placed, made, view


def test_all_applied_sets_fully_applied_and_template_gets_aggregated_status() -> None:
    placed, made, view = scheduled_binding(("m1", 2), ("m2", 2))
    effects = list(aggregate(placed, view(*map(with_applied_status, made.values()))))
    (updated,) = [w for w in effects if isinstance(w, ResourceBinding)]
    assert [(i.cluster_name, i.applied, i.health) for i in updated.status.aggregated_status] == [
        ("m1", True, "Healthy"),
        ("m2", True, "Healthy"),
    ]
    assert find_condition(updated.status.conditions, "FullyApplied").status == "True"
    (template,) = [w for w in effects if isinstance(w, Ensure)]
    assert template.subresource == "status"
    assert template.wanted["status"]["readyReplicas"] == 4


def test_report_waits_for_cluster_without_applied_condition() -> None:
    placed, made, view = scheduled_binding(("m1", 2), ("m2", 2))
    one = [with_applied_status(made["m1"]), made["m2"].but(metadata=made["m2"].metadata.but(resource_version="3"))]
    seen = view(*one)
    memory, again = aggregate(placed, seen)
    assert isinstance(again, RequeueAfter)
    seen.memory[memory.topic, memory.key] = memory.value
    seen.now = seen.now.replace(second=30)
    effects = list(aggregate(placed, seen))
    (updated, *_) = [w for w in effects if isinstance(w, ResourceBinding)]
    (later,) = [w for w in effects if isinstance(w, RememberInProcess)]
    assert later.value == (seen.now, 2 * memory.value.seconds, "")  # the next report waits twice as long
    assert find_condition(updated.status.conditions, "FullyApplied").status == "False"
    assert updated.status.aggregated_status[1].health == "Unknown"


def test_report_waits_for_scheduled_condition() -> None:
    placed, made, view = scheduled_binding(("m1", 2))
    unconfirmed = placed.but(status=placed.status.but(conditions=()))
    seen = view(*map(with_applied_status, made.values()))
    memory, again = aggregate(unconfirmed, seen)
    assert again == RequeueAfter(0.25)
    seen.memory[memory.topic, memory.key] = memory.value
    assert list(aggregate(unconfirmed, seen)) == [again]
    (updated,) = [w for w in aggregate(placed, seen) if isinstance(w, ResourceBinding)]
    assert [c.type for c in updated.status.conditions] == ["Scheduled", "FullyApplied"]
    seen.now = seen.now.replace(second=30)
    assert any(isinstance(w, ResourceBinding) for w in aggregate(unconfirmed, seen))  # the wait is limited
    other = unconfirmed.but(spec=unconfirmed.spec.but(scheduler_name="somebody-else"))
    assert any(isinstance(w, ResourceBinding) for w in aggregate(other, view(*map(with_applied_status, made.values()))))


def test_status_of_other_clusters_triggers_nothing_while_report_is_pending() -> None:
    placed, made, view = scheduled_binding(("m1", 2), ("m2", 2), ("m3", 2))
    silent = {name: work.but(metadata=work.metadata.but(resource_version="3")) for name, work in made.items()}

    def waiting(*, ready: str = "True", answered: bool = False, seconds: int = 1) -> FakeView:
        last = with_applied_status(silent["m3"]) if answered else silent["m3"]
        seen = view(placed, with_applied_status(silent["m1"]), silent["m2"], last)
        memory, _ = aggregate(placed, view(*silent.values()))
        seen.memory[memory.topic, memory.key] = memory.value
        seen.objects = [cluster("m3", ready=ready) if t.name == "m3" else t for t in seen.objects]
        seen.now += timedelta(seconds=seconds)
        return seen

    def wakes(name: str, seen: FakeView) -> bool:
        return bool(list(binding_of_reported_work(silent[name], with_applied_status(silent[name]), seen)))

    leaving = silent["m1"].but(metadata=silent["m1"].metadata.but(deletion_timestamp=NOON))
    assert not wakes("m1", waiting())
    assert not list(binding_of_reported_work(None, silent["m2"], waiting()))
    assert not list(binding_of_reported_work(None, silent["m3"], waiting()))
    assert wakes("m3", waiting(answered=True))
    assert wakes("m1", waiting(answered=True))
    assert wakes("m1", waiting(ready="Unknown"))
    assert wakes("m1", waiting(seconds=6))
    assert list(binding_of_reported_work(silent["m1"], leaving, waiting()))
    assert list(binding_of_reported_work(silent["m1"], None, waiting()))


def test_pending_report_clears_awaited_cluster_without_works() -> None:
    placed, made, view = scheduled_binding(("m1", 2), ("m2", 2))
    memory, again = aggregate(placed, view(*made.values()))
    assert (memory.value.cluster, again) == ("m2", RequeueAfter(5.0))
    empty = view()
    empty.memory[memory.topic, memory.key] = memory.value
    (cleared,) = aggregate(placed, empty)
    assert (cleared.value.since, cleared.value.cluster) == (memory.value.since, "")


def test_binding_change_needs_report_once_it_is_placed_or_was_reported() -> None:
    def edited(subject: ResourceBinding) -> ResourceBinding:
        return subject.but(metadata=subject.metadata.but(generation=subject.metadata.generation + 1))

    unplaced, placed = binding(clusters={}), binding(clusters={"m1": 1})
    reported = Condition(type="FullyApplied", status="True", last_transition_time=NOON)
    emptied = unplaced.but(status=unplaced.status.but(conditions=(reported,)))
    unscheduled = emptied.but(status=emptied.status.but(last_scheduled_time=None))
    assert not needs_report(None, unplaced)
    assert not needs_report(unplaced, edited(placed))
    assert not needs_report(None, placed), "its Works trigger the first report"
    assert needs_report(None, emptied)
    assert needs_report(placed, edited(binding(clusters={"m2": 1})))
    assert needs_report(placed, edited(emptied))
    assert needs_report(unscheduled, unscheduled.but(status=unscheduled.status.but(last_scheduled_time=NOON)))
    assert not needs_report(emptied, emptied)


def test_report_does_not_wait_for_unready_cluster() -> None:
    placed, made, view = scheduled_binding(("m1", 2), ("m2", 2))
    seen = view(with_applied_status(made["m1"]), made["m2"].but(metadata=made["m2"].metadata.but(resource_version="3")))
    seen.objects = [cluster("m2", ready="Unknown") if thing.name == "m2" else thing for thing in seen.objects]
    (updated,) = [w for w in aggregate(placed, seen) if isinstance(w, ResourceBinding)]
    assert [(item.cluster_name, item.applied) for item in updated.status.aggregated_status] == [
        ("m1", True),
        ("m2", False),
    ]


def test_second_reconcile_writes_nothing() -> None:
    placed, made, view = scheduled_binding(("m1", 2))
    seen = view(*map(with_applied_status, made.values()))
    (updated,) = [w for w in aggregate(placed, seen) if isinstance(w, ResourceBinding)]
    assert not [w for w in aggregate(updated, seen) if isinstance(w, ResourceBinding)]


def test_unready_cluster_has_unknown_health_but_last_health_in_upstream_profile() -> None:
    for profile, expected in ((None, "Unknown"), (UPSTREAM, "Healthy")):
        placed, made, view = scheduled_binding(("m1", 2), profile=profile)
        seen = view(*map(with_applied_status, made.values()))
        seen.objects = [cluster("m1", ready="False"), *seen.objects[1:]]
        seen.objects = [t for t in seen.objects if not (t.name == "m1" and t is not seen.objects[0])]
        (updated,) = [w for w in aggregate(placed, seen) if isinstance(w, ResourceBinding)]
        assert updated.status.aggregated_status[0].health == expected


def test_status_of_older_template_generation_is_not_fully_applied() -> None:
    for profile, expected in ((None, "False"), (UPSTREAM, "True")):
        placed, made, view = scheduled_binding(("m1", 2), profile=profile)
        old = [with_applied_status(work, resourceTemplateGeneration=0) for work in made.values()]
        (updated,) = [w for w in aggregate(placed, view(*old)) if isinstance(w, ResourceBinding)]
        assert find_condition(updated.status.conditions, "FullyApplied").status == expected


def test_binding_without_works_is_reported_only_if_it_was_applied_before() -> None:
    placed, _, view = scheduled_binding(("m1", 2), profile=UPSTREAM)
    assert list(aggregate(placed, view())) == []
    was = Condition(type="FullyApplied", status="True", last_transition_time=NOON)
    bare = placed.but(spec=placed.spec.but(clusters=()), status=placed.status.but(conditions=(was,)))
    (updated,) = [w for w in aggregate(bare, view()) if isinstance(w, ResourceBinding)]
    assert find_condition(updated.status.conditions, "FullyApplied").reason == "FullyAppliedFailed"


def test_failed_write_keeps_creation_time_and_settled() -> None:
    rules = FailoverBehavior(application=ApplicationFailoverBehavior())
    placed, made, view = scheduled_binding(("m1", 2), failover=rules)
    (updated,) = [w for w in aggregate(placed, view(with_applied_status(made["m1"]))) if isinstance(w, ResourceBinding)]
    (before,) = updated.status.aggregated_status
    assert (before.settled, before.creation_timestamp) == (True, NOON)
    failing = with_applied_status(made["m1"])
    refused = Condition(type="Applied", status="False", message="no", last_transition_time=NOON)
    failing = failing.but(status=failing.status.but(conditions=(refused,)))
    later = view(failing)
    later.now = NOON + timedelta(minutes=5)
    (updated,) = [w for w in aggregate(updated, later) if isinstance(w, ResourceBinding)]
    (now,) = updated.status.aggregated_status
    assert (now.applied, now.settled, now.creation_timestamp) == (False, True, NOON)


def test_creation_time_is_that_of_first_collected_status() -> None:
    rules = FailoverBehavior(application=ApplicationFailoverBehavior())
    placed, made, view = scheduled_binding(("m1", 2), failover=rules)
    sent = with_applied_status(made["m1"])
    silent = sent.but(status=sent.status.but(manifest_statuses=()))
    (updated,) = [w for w in aggregate(placed, view(silent)) if isinstance(w, ResourceBinding)]
    assert updated.status.aggregated_status[0].creation_timestamp is None


def test_works_that_are_about_to_be_deleted_are_not_reported() -> None:
    """Between the end of a move and the deletion of the old Work the status would count the workload twice."""
    for profile, reported, condition in ((TRIMTAB, ["m2"], "True"), (UPSTREAM, ["m1", "m2"], "False")):
        placed, made, view = scheduled_binding(("m1", 2), ("m2", 2), profile=profile)
        left = placed.but(spec=placed.spec.but(clusters=placed.spec.clusters[1:]))
        effects = list(aggregate(left, view(*map(with_applied_status, made.values()))))
        (updated,) = [w for w in effects if isinstance(w, ResourceBinding)]
        assert [item.cluster_name for item in updated.status.aggregated_status] == reported
        assert find_condition(updated.status.conditions, "FullyApplied").status == condition
