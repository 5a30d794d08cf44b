from datetime import timedelta
from typing import Any

from views import NOON, FakeView

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.ocm_work import (
    DeleteOption,
    ExecutorServiceAccount,
    ExecutorSubject,
    FeedbackRule,
    IgnoreField,
    JsonPath,
    ManifestConditionRule,
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
from trimtab.controllers.contract import Delete, RequeueAfter
from trimtab.controllers.ocm.manifestwork import FINALIZER, SET_LABEL, manifestwork, plural_of
from trimtab.interpret.cel.expressions import compiler

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}}
JOINED = (Cluster(metadata=Meta(name="m1")), Namespace(metadata=Meta(name="karmada-es-m1")))


def subject(generation: int = 1, **spec: Any) -> ManifestWork:
    return ManifestWork(
        metadata=Meta(name="w", namespace="m1", uid="u", generation=generation, finalizers=(FINALIZER,)),
        spec=ManifestWorkSpec(workload=ManifestsTemplate(manifests=(DEPLOYMENT,)), **spec),
    )


def reconcile(work: ManifestWork, *others: Object, seen: Raw | None = None) -> list[Any]:
    location = ("m1", well_known.ref_of_raw(DEPLOYMENT))
    return list(
        manifestwork(work, FakeView([work, *JOINED, *others], members={location: seen} if seen else {}, cel=compiler()))
    )


def rendered_work(work: ManifestWork) -> Work:
    return next(effect for effect in reconcile(work) if isinstance(effect, Work))


def with_status(work: Work, health: str = "Healthy") -> Work:
    identifier = ResourceIdentifier(group="apps", version="v1", kind="Deployment", namespace="default", name="web")
    status = ManifestStatus(identifier=identifier, status={"readyReplicas": 2}, health=health)
    applied = Condition(type="Applied", status="True", reason="AppliedSuccessful", last_transition_time=NOON)
    return work.but(status=WorkStatus(conditions=(applied,), manifest_statuses=(status,)))


def conditions(effects: list[Any]) -> dict[str, str]:
    (after,) = [effect for effect in effects if isinstance(effect, ManifestWork)]
    assert all(c.observed_generation == after.metadata.generation for c in after.status.conditions)
    return {c.type: c.status for c in after.status.conditions}


def test_work_carries_the_manifests_and_overwrites_existing_objects() -> None:
    work = rendered_work(subject())
    assert work.namespace == "karmada-es-m1"
    (manifest,) = work.spec.workload.manifests
    assert manifest["metadata"]["labels"][well_known.MANAGED] == "true"
    assert manifest["metadata"]["annotations"][well_known.CONFLICT_RESOLUTION] == "overwrite"
    assert not work.spec.preserve_resources_on_deletion


def test_orphaned_objects_are_preserved() -> None:
    assert rendered_work(
        subject(delete_option=DeleteOption(propagation_policy="Orphan"))
    ).spec.preserve_resources_on_deletion


def test_work_status_becomes_conditions() -> None:
    work = with_status(rendered_work(subject()))
    assert conditions(reconcile(subject(), work)) == {
        "Applied": "True",
        "Available": "True",
        "Progressing": "False",
        "Degraded": "False",
    }


def test_only_a_work_that_was_healthy_before_is_degraded() -> None:
    work = with_status(rendered_work(subject()))
    unhealthy = with_status(work, "Unhealthy")
    starting = conditions(reconcile(subject(), unhealthy))
    assert (starting["Progressing"], starting["Degraded"]) == ("True", "False")
    (healthy,) = reconcile(subject(), work)
    assert conditions(reconcile(healthy, unhealthy))["Degraded"] == "True"
    (degraded,) = reconcile(healthy, unhealthy)
    assert reconcile(degraded, unhealthy) == []
    updated = degraded.but(metadata=degraded.metadata.but(generation=2))
    assert conditions(reconcile(updated, with_status(rendered_work(updated), "Unhealthy")))["Degraded"] == "False"


def test_current_status_is_not_written_again() -> None:
    work = with_status(rendered_work(subject()))
    (after,) = reconcile(subject(), work)
    assert reconcile(after, work) == []


def test_no_conditions_for_a_generation_that_the_member_does_not_have() -> None:
    work = with_status(rendered_work(subject(generation=2)))
    old = rendered_work(subject(generation=1)).spec.workload.manifests[0]
    (after,) = reconcile(subject(generation=2), work, seen=old)
    assert after.status.conditions == ()
    new = work.spec.workload.manifests[0]
    assert conditions(reconcile(subject(generation=2), work, seen=new))["Applied"] == "True"


def test_requested_values_are_in_the_status_feedback() -> None:
    config = ManifestConfigOption(
        resource_identifier=WorkResourceIdentifier(
            group="apps", resource="deployments", name="web", namespace="default"
        ),
        feedback_rules=(
            FeedbackRule(type="WellKnownStatus"),
            FeedbackRule(type="JSONPaths", json_paths=(JsonPath(name="ready", path=".status.readyReplicas"),)),
        ),
    )
    wanted = subject(manifest_configs=(config,))
    (after,) = reconcile(wanted, with_status(rendered_work(wanted)))
    (item,) = after.status.resource_status.manifests
    values = {v.name: v.field_value.integer for v in item.status_feedback.values}
    assert values == {"ReadyReplicas": 2, "ready": 2}


def test_work_is_deleted_before_the_finalizer_is_removed() -> None:
    work = rendered_work(subject())
    terminating = subject().but(metadata=subject().metadata.but(deletion_timestamp=NOON))
    assert reconcile(terminating, work) == [Delete(work)]
    (released,) = reconcile(terminating)
    assert released.metadata.finalizers == ()


def test_cluster_that_is_not_joined_is_ignored() -> None:
    assert list(manifestwork(subject(), FakeView([subject()]))) == []


def test_per_object_rules_become_annotations() -> None:
    identifier = WorkResourceIdentifier(group="apps", resource="deployments", name="web", namespace="default")
    apply = UpdateStrategy(type="ServerSideApply", server_side_apply=ServerSideApplyConfig(force=True))
    (manifest,) = rendered_work(
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
    annotations = manifest["metadata"]["annotations"]
    assert annotations[well_known.UPDATE_STRATEGY] == "ServerSideApply"
    assert annotations[well_known.FIELD_MANAGER] == "work-agent!"
    assert annotations[well_known.ON_DELETION] == "Orphan"


def test_rules_for_another_object_are_ignored() -> None:
    other = OrphaningRule(group="apps", resource="statefulsets", namespace="default", name="web")
    option = DeleteOption(
        propagation_policy="SelectivelyOrphan", selectively_orphans=SelectivelyOrphan(orphaning_rules=(other,))
    )
    (manifest,) = rendered_work(subject(delete_option=option)).spec.workload.manifests
    assert well_known.ON_DELETION not in manifest["metadata"]["annotations"]


def test_undeclared_kind_gets_the_regular_plural() -> None:
    assert [plural_of("x/v1", kind) for kind in ("Widget", "Policy", "Gateway", "Bus")] == [
        "widgets",
        "policies",
        "gateways",
        "buses",
    ]


def test_progressing_time_restarts_with_a_new_generation() -> None:
    (first,) = reconcile(subject(), with_status(rendered_work(subject())))
    earlier = NOON - timedelta(hours=1)
    old = tuple(c.but(last_transition_time=earlier) for c in first.status.conditions)
    second = subject(generation=2)
    second = second.but(status=first.status.but(conditions=old))
    (after,) = reconcile(second, with_status(rendered_work(second)))
    since = {c.type: c.last_transition_time for c in after.status.conditions}
    assert since["Progressing"] == NOON
    assert since["Applied"] == earlier


WITH_RULE = ManifestConfigOption(
    resource_identifier=WorkResourceIdentifier(group="apps", resource="deployments", name="web", namespace="default"),
    condition_rules=(
        ManifestConditionRule(condition="Complete", type="CEL", cel_expressions=("object.status.readyReplicas == 2",)),
    ),
)


def completed_work(**option: Any) -> ManifestWork:
    """A ManifestWork whose Complete rule is true."""
    wanted = subject(manifest_configs=(WITH_RULE,), delete_option=DeleteOption(**option))
    view = FakeView([wanted, *JOINED, with_status(rendered_work(wanted))], cel=compiler())
    return next(effect for effect in manifestwork(wanted, view) if isinstance(effect, ManifestWork))


def test_complete_work_is_not_applied_again_and_stays_complete_without_its_object() -> None:
    done = completed_work()
    assert {c.type: c.status for c in done.status.conditions}["Complete"] == "True"
    (manifest,) = rendered_work(done).spec.workload.manifests
    assert manifest["metadata"]["annotations"][well_known.UPDATE_STRATEGY] == "Completed"
    empty = with_status(rendered_work(done)).but(
        status=WorkStatus(conditions=with_status(rendered_work(done)).status.conditions)
    )
    view = FakeView([done, *JOINED, empty], cel=compiler())
    after = next((effect for effect in manifestwork(done, view) if isinstance(effect, ManifestWork)), done)
    assert {c.type: c.status for c in after.status.conditions}["Complete"] == "True"
    assert len(after.status.resource_status.manifests) == 1


def test_complete_work_is_deleted_after_its_ttl() -> None:
    done = completed_work(ttl_seconds_after_finished=60)
    work = with_status(rendered_work(done))

    def at(seconds: int, found: ManifestWork = done) -> list[Any]:
        view = FakeView([found, *JOINED, work], now=NOON + timedelta(seconds=seconds), cel=compiler())
        return [effect for effect in manifestwork(found, view) if isinstance(effect, RequeueAfter | Delete)]

    assert at(20) == [RequeueAfter(40.001)]
    assert at(60) == [Delete(done)]
    of_a_set = done.but(metadata=done.metadata.but(labels={SET_LABEL: "ns.set"}))
    assert at(90, of_a_set) == []
    assert list(manifestwork(done, FakeView([done], now=NOON + timedelta(seconds=60)))) == [Delete(done)]
    assert list(manifestwork(done, FakeView([done], now=NOON + timedelta(seconds=20)))) == [RequeueAfter(40.001)]


def test_conditions_of_removed_rules_are_removed() -> None:
    done = completed_work()
    without_rules = done.but(spec=done.spec.but(manifest_configs=()))
    view = FakeView([without_rules, *JOINED, with_status(rendered_work(without_rules))], cel=compiler())
    after = next(effect for effect in manifestwork(without_rules, view) if isinstance(effect, ManifestWork))
    assert "Complete" not in {c.type for c in after.status.conditions}
    assert "Complete" not in {c.type for item in after.status.resource_status.manifests for c in item.conditions}


def test_executor_is_annotated_on_the_work_and_not_on_its_objects() -> None:
    account = ExecutorServiceAccount(namespace="default", name="deployer")
    executor = WorkExecutor(subject=ExecutorSubject(type="ServiceAccount", service_account=account))
    work = rendered_work(subject(executor=executor))
    assert work.metadata.annotations[well_known.EXECUTOR] == "default/deployer"
    assert well_known.EXECUTOR not in work.spec.workload.manifests[0]["metadata"]["annotations"]


def test_ignored_fields_are_annotated_with_the_manifest_hash() -> None:
    ignored = ServerSideApplyConfig(ignore_fields=(IgnoreField(json_paths=(".spec.replicas",)),))
    strategy = UpdateStrategy(type="ServerSideApply", server_side_apply=ignored)
    (manifest,) = rendered_work(
        subject(manifest_configs=(WITH_RULE.but(update_strategy=strategy),))
    ).spec.workload.manifests
    annotations = manifest["metadata"]["annotations"]
    assert annotations[well_known.IGNORE_FIELDS] == '[{"condition":"OnSpokePresent","jsonPaths":[".spec.replicas"]}]'
    assert annotations[well_known.CONFIG_HASH]


def test_health_comes_from_the_object_when_the_work_status_is_old() -> None:
    wanted = subject(generation=2)
    work = with_status(rendered_work(wanted), "Healthy")
    (manifest,) = work.spec.workload.manifests
    starting = {
        **manifest,
        "metadata": {**manifest["metadata"], "generation": 5},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": 4, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2},
    }
    assert conditions(reconcile(wanted, work, seen=starting))["Progressing"] == "True"
    started = {**starting, "status": {**starting["status"], "observedGeneration": 5}}
    assert conditions(reconcile(wanted, work, seen=started))["Progressing"] == "False"
