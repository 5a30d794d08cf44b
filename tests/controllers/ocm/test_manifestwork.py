from datetime import timedelta
from typing import Any

from views import NOON, FakeView

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.ocm import (
    ConditionRule,
    DeleteOption,
    ExecutorServiceAccount,
    ExecutorSubject,
    FeedbackRule,
    IgnoreField,
    JsonPath,
    ManifestConfigOption,
    ManifestsTemplate,
    ManifestWork,
    ManifestWorkSpec,
    OrphaningRule,
    SelectivelyOrphan,
    ServerSideApplyConfig,
    UpdateStrategy,
    WorkExecutor,
    WorkResourceIdentifier,
)
from trimtab.api.kinds.work import ManifestStatus, ResourceIdentifier, Work, WorkStatus
from trimtab.api.value import Condition, Meta, Object, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Again, Gone
from trimtab.controllers.ocm.manifestwork import FINALIZER, SET_LABEL, manifest_work, plural_of
from trimtab.interpret.cel.expressions import compiler
from trimtab.interpret.interpreter import Interpreter

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}}
HERE = (Cluster(metadata=Meta(name="m1")), Namespace(metadata=Meta(name="karmada-es-m1")))

PARTS = {"cel": compiler(), "interpreter": Interpreter.of()}


def subject(generation: int = 1, **spec: Any) -> ManifestWork:
    return ManifestWork(
        metadata=Meta(name="w", namespace="m1", uid="u", generation=generation, finalizers=(FINALIZER,)),
        spec=ManifestWorkSpec(workload=ManifestsTemplate(manifests=(DEPLOYMENT,)), **spec),
    )


def beat(work: ManifestWork, *others: Object, seen: Raw | None = None) -> list[Any]:
    place = ("m1", well_known.ref_of_raw(DEPLOYMENT))
    return list(
        manifest_work(work, FakeView([work, *HERE, *others], members={place: seen} if seen else {}, parts=PARTS))
    )


def sent(work: ManifestWork) -> Work:
    return next(wish for wish in beat(work) if isinstance(wish, Work))


def reported(work: Work, health: str = "Healthy") -> Work:
    identifier = ResourceIdentifier(group="apps", version="v1", kind="Deployment", namespace="default", name="web")
    status = ManifestStatus(identifier=identifier, status={"readyReplicas": 2}, health=health)
    applied = Condition(type="Applied", status="True", reason="AppliedSuccessful", last_transition_time=NOON)
    return work.but(status=WorkStatus(conditions=(applied,), manifest_statuses=(status,)))


def conditions(wishes: list[Any]) -> dict[str, str]:
    (after,) = [wish for wish in wishes if isinstance(wish, ManifestWork)]
    assert all(c.observed_generation == after.metadata.generation for c in after.status.conditions)
    return {c.type: c.status for c in after.status.conditions}


def test_the_manifests_travel_in_a_work_and_take_over_what_is_there() -> None:
    work = sent(subject())
    assert work.namespace == "karmada-es-m1"
    (manifest,) = work.spec.workload.manifests
    assert manifest["metadata"]["labels"][well_known.MANAGED] == "true"
    assert manifest["metadata"]["annotations"][well_known.CONFLICT_RESOLUTION] == "overwrite"
    assert not work.spec.preserve_resources_on_deletion


def test_orphans_stay_in_the_cluster() -> None:
    assert sent(subject(delete_option=DeleteOption(propagation_policy="Orphan"))).spec.preserve_resources_on_deletion


def test_what_the_work_reports_becomes_conditions() -> None:
    work = reported(sent(subject()))
    assert conditions(beat(subject(), work)) == {
        "Applied": "True",
        "Available": "True",
        "Progressing": "False",
        "Degraded": "False",
    }


def test_what_is_still_on_its_way_is_not_degraded_and_what_did_well_before_is() -> None:
    work = reported(sent(subject()))
    ill = reported(work, "Unhealthy")
    young = conditions(beat(subject(), ill))
    assert (young["Progressing"], young["Degraded"]) == ("True", "False")
    (well,) = beat(subject(), work)
    assert conditions(beat(well, ill))["Degraded"] == "True"
    (degraded,) = beat(well, ill)
    assert beat(degraded, ill) == []
    renewed = degraded.but(metadata=degraded.metadata.but(generation=2))
    assert conditions(beat(renewed, reported(sent(renewed), "Unhealthy")))["Degraded"] == "False"


def test_a_status_that_is_told_already_is_not_told_again() -> None:
    work = reported(sent(subject()))
    (after,) = beat(subject(), work)
    assert beat(after, work) == []


def test_nothing_is_said_of_a_generation_that_the_member_has_not_got() -> None:
    work = reported(sent(subject(generation=2)))
    old = sent(subject(generation=1)).spec.workload.manifests[0]
    (after,) = beat(subject(generation=2), work, seen=old)
    assert after.status.conditions == ()
    new = work.spec.workload.manifests[0]
    assert conditions(beat(subject(generation=2), work, seen=new))["Applied"] == "True"


def test_values_that_were_asked_for_are_fed_back() -> None:
    config = ManifestConfigOption(
        resource_identifier=WorkResourceIdentifier(
            group="apps", resource="deployments", name="web", namespace="default"
        ),
        feedback_rules=(
            FeedbackRule(type="WellKnownStatus"),
            FeedbackRule(type="JSONPaths", json_paths=(JsonPath(name="ready", path=".status.readyReplicas"),)),
        ),
    )
    asked = subject(manifest_configs=(config,))
    (after,) = beat(asked, reported(sent(asked)))
    (item,) = after.status.resource_status.manifests
    values = {v.name: v.field_value.integer for v in item.status_feedback.values}
    assert values == {"ReadyReplicas": 2, "ready": 2}


def test_the_objects_go_before_the_manifestwork_does() -> None:
    work = sent(subject())
    leaving = subject().but(metadata=subject().metadata.but(deletion_timestamp=NOON))
    assert beat(leaving, work) == [Gone(work)]
    (free,) = beat(leaving)
    assert free.metadata.finalizers == ()


def test_clusters_that_are_not_ours_are_left_to_their_own_agent() -> None:
    assert list(manifest_work(subject(), FakeView([subject()]))) == []


def test_rules_for_single_objects_travel_with_them() -> None:
    identifier = WorkResourceIdentifier(group="apps", resource="deployments", name="web", namespace="default")
    apply = UpdateStrategy(type="ServerSideApply", server_side_apply=ServerSideApplyConfig(force=True))
    (manifest,) = sent(
        subject(
            manifest_configs=(ManifestConfigOption(resource_identifier=identifier, update_strategy=apply),),
            delete_option=DeleteOption(
                propagation_policy="SelectivelyOrphan",
                selectively_orphans=SelectivelyOrphan(
                    orphaning_rules=(
                        OrphaningRule(group="apps", resource="deployments", namespace="default", name="web"),
                    )
                ),
            ),
        )
    ).spec.workload.manifests
    notes = manifest["metadata"]["annotations"]
    assert notes[well_known.UPDATE_STRATEGY] == "ServerSideApply"
    assert notes[well_known.FIELD_MANAGER] == "work-agent!"
    assert notes[well_known.ON_DELETION] == "Orphan"


def test_rules_for_another_object_do_not_count() -> None:
    other = OrphaningRule(group="apps", resource="statefulsets", namespace="default", name="web")
    option = DeleteOption(
        propagation_policy="SelectivelyOrphan", selectively_orphans=SelectivelyOrphan(orphaning_rules=(other,))
    )
    (manifest,) = sent(subject(delete_option=option)).spec.workload.manifests
    assert well_known.ON_DELETION not in manifest["metadata"]["annotations"]


def test_kinds_nobody_knows_have_the_plural_that_most_would_give_them() -> None:
    assert [plural_of("x/v1", kind) for kind in ("Widget", "Policy", "Gateway", "Bus")] == [
        "widgets",
        "policies",
        "gateways",
        "buses",
    ]


def test_a_new_generation_has_been_in_place_only_since_it_came() -> None:
    (first,) = beat(subject(), reported(sent(subject())))
    earlier = NOON - timedelta(hours=1)
    old = tuple(c.but(last_transition_time=earlier) for c in first.status.conditions)
    second = subject(generation=2)
    second = second.but(status=first.status.but(conditions=old))
    (after,) = beat(second, reported(sent(second)))
    since = {c.type: c.last_transition_time for c in after.status.conditions}
    assert since["Progressing"] == NOON
    assert since["Applied"] == earlier


RULED = ManifestConfigOption(
    resource_identifier=WorkResourceIdentifier(group="apps", resource="deployments", name="web", namespace="default"),
    condition_rules=(
        ConditionRule(condition="Complete", type="CEL", cel_expressions=("object.status.readyReplicas == 2",)),
    ),
)


def complete(**option: Any) -> ManifestWork:
    """A work whose rule has just been found to hold."""
    asked = subject(manifest_configs=(RULED,), delete_option=DeleteOption(**option))
    view = FakeView([asked, *HERE, reported(sent(asked))], parts=PARTS)
    return next(wish for wish in manifest_work(asked, view) if isinstance(wish, ManifestWork))


def test_a_complete_work_is_not_applied_any_more_and_stays_complete_when_its_object_is_gone() -> None:
    done = complete()
    assert {c.type: c.status for c in done.status.conditions}["Complete"] == "True"
    (manifest,) = sent(done).spec.workload.manifests
    assert manifest["metadata"]["annotations"][well_known.UPDATE_STRATEGY] == "Completed"
    empty = reported(sent(done)).but(status=WorkStatus(conditions=reported(sent(done)).status.conditions))
    view = FakeView([done, *HERE, empty], parts=PARTS)
    after = next((wish for wish in manifest_work(done, view) if isinstance(wish, ManifestWork)), done)
    assert {c.type: c.status for c in after.status.conditions}["Complete"] == "True"
    assert len(after.status.resource_status.manifests) == 1


def test_a_complete_work_goes_after_its_time_and_not_before() -> None:
    done = complete(ttl_seconds_after_finished=60)
    work = reported(sent(done))

    def at(seconds: int, found: ManifestWork = done) -> list[Any]:
        view = FakeView([found, *HERE, work], now=NOON + timedelta(seconds=seconds), parts=PARTS)
        return [wish for wish in manifest_work(found, view) if isinstance(wish, Again | Gone)]

    assert at(20) == [Again(40.001)]
    assert at(60) == [Gone(done)]
    of_a_set = done.but(metadata=done.metadata.but(labels={SET_LABEL: "ns.set"}))
    assert at(90, of_a_set) == []


def test_conditions_of_rules_that_are_gone_go_with_them() -> None:
    done = complete()
    unruled = done.but(spec=done.spec.but(manifest_configs=()))
    view = FakeView([unruled, *HERE, reported(sent(unruled))], parts=PARTS)
    after = next(wish for wish in manifest_work(unruled, view) if isinstance(wish, ManifestWork))
    assert "Complete" not in {c.type for c in after.status.conditions}
    assert "Complete" not in {c.type for item in after.status.resource_status.manifests for c in item.conditions}


def test_the_executor_travels_with_the_work_and_not_with_its_objects() -> None:
    account = ExecutorServiceAccount(namespace="default", name="deployer")
    executor = WorkExecutor(subject=ExecutorSubject(type="ServiceAccount", service_account=account))
    work = sent(subject(executor=executor))
    assert work.metadata.annotations[well_known.EXECUTOR] == "default/deployer"
    assert well_known.EXECUTOR not in work.spec.workload.manifests[0]["metadata"]["annotations"]


def test_fields_to_ignore_travel_with_the_hash_of_the_manifest() -> None:
    ignored = ServerSideApplyConfig(ignore_fields=(IgnoreField(json_paths=(".spec.replicas",)),))
    strategy = UpdateStrategy(type="ServerSideApply", server_side_apply=ignored)
    (manifest,) = sent(subject(manifest_configs=(RULED.but(update_strategy=strategy),))).spec.workload.manifests
    notes = manifest["metadata"]["annotations"]
    assert notes[well_known.IGNORE_FIELDS] == '[{"condition":"OnSpokePresent","jsonPaths":[".spec.replicas"]}]'
    assert notes[well_known.CONFIG_HASH]


def test_the_object_itself_shows_how_it_does_when_its_work_is_late() -> None:
    asked = subject(generation=2)
    work = reported(sent(asked), "Healthy")
    (manifest,) = work.spec.workload.manifests
    starting = {
        **manifest,
        "metadata": {**manifest["metadata"], "generation": 5},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": 4, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2},
    }
    assert conditions(beat(asked, work, seen=starting))["Progressing"] == "True"
    started = {**starting, "status": {**starting["status"], "observedGeneration": 5}}
    assert conditions(beat(asked, work, seen=started))["Progressing"] == "False"
