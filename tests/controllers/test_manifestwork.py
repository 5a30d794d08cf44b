from datetime import timedelta
from typing import Any

from views import NOON, FakeView

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.ocm import (
    DeleteOption,
    FeedbackRule,
    JsonPath,
    ManifestConfigOption,
    ManifestsTemplate,
    ManifestWork,
    ManifestWorkSpec,
    OrphaningRule,
    SelectivelyOrphan,
    ServerSideApplyConfig,
    UpdateStrategy,
    WorkResourceIdentifier,
)
from trimtab.api.kinds.work import ManifestStatus, ResourceIdentifier, Work, WorkStatus
from trimtab.api.value import Condition, Meta, Object, Raw
from trimtab.controllers import marks
from trimtab.controllers.contract import Gone
from trimtab.controllers.manifestwork import FINALIZER, manifest_work, plural_of

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}}
HERE = (Cluster(metadata=Meta(name="m1")), Namespace(metadata=Meta(name="karmada-es-m1")))


def subject(generation: int = 1, **spec: Any) -> ManifestWork:
    return ManifestWork(
        metadata=Meta(name="w", namespace="m1", uid="u", generation=generation, finalizers=(FINALIZER,)),
        spec=ManifestWorkSpec(workload=ManifestsTemplate(manifests=(DEPLOYMENT,)), **spec),
    )


def beat(work: ManifestWork, *others: Object, seen: Raw | None = None) -> list[Any]:
    place = ("m1", marks.ref_of_raw(DEPLOYMENT))
    return list(manifest_work(work, FakeView([work, *HERE, *others], members={place: seen} if seen else {})))


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
    assert manifest["metadata"]["labels"][marks.MANAGED] == "true"
    assert manifest["metadata"]["annotations"][marks.CONFLICT_RESOLUTION] == "overwrite"
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
    assert conditions(beat(subject(), reported(work, "Unhealthy")))["Degraded"] == "True"


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
    assert notes[marks.UPDATE_STRATEGY] == "ServerSideApply"
    assert notes[marks.FIELD_MANAGER] == "work-agent!"
    assert notes[marks.ON_DELETION] == "Orphan"


def test_rules_for_another_object_do_not_count() -> None:
    other = OrphaningRule(group="apps", resource="statefulsets", namespace="default", name="web")
    option = DeleteOption(
        propagation_policy="SelectivelyOrphan", selectively_orphans=SelectivelyOrphan(orphaning_rules=(other,))
    )
    (manifest,) = sent(subject(delete_option=option)).spec.workload.manifests
    assert marks.ON_DELETION not in manifest["metadata"]["annotations"]


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
