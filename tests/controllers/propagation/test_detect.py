"""A template and a matching policy become a binding."""

import pytest
from builders import binding, claimed_template, cluster_policy, deployment, policy
from views import FakeView

from trimtab.api.kinds.policy import PropagationPolicy, ResourceSelector
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.profile import UPSTREAM
from trimtab.controllers import well_known
from trimtab.controllers.contract import CreateCompleted, Ensure, RecordEvent, RememberInProcess, RequeueAfter
from trimtab.controllers.propagation import policy_matching
from trimtab.controllers.propagation.detect import TEMPLATE, content_changed, detect, template_state
from trimtab.controllers.propagation.template_scope import OWN_NAMESPACE
from trimtab.controllers.selection import RUNNING
from trimtab.interpret.interpreter import Interpreter
from trimtab.runtime.observers.step_times import StepTimes


def view(*things, raws=(), **more) -> FakeView:
    return FakeView(things, raws=raws, interpreter=Interpreter.of(), **more)


def effects_of_type(effects, type_):
    return [effect for effect in effects if isinstance(effect, type_)]


def bindings_in(effects) -> list[ResourceBinding]:
    """The bindings that are written, also those that the scheduler completes first."""
    found = (effect.wanted if isinstance(effect, CreateCompleted) else effect for effect in effects)
    return effects_of_type(found, ResourceBinding)


def test_template_is_claimed_first() -> None:
    (claim,) = effects_of_type(detect(deployment(), view(policy())), Ensure)
    assert claim.wanted["metadata"]["labels"] == {well_known.PP_ID: "id-pp"}
    assert claim.wanted["metadata"]["annotations"] == {well_known.PP_NAMESPACE: "demo", well_known.PP_NAME: "pp"}


def test_search_for_a_policy_is_reported_only_where_there_is_no_claim() -> None:
    steps = []
    observed = view(policy())
    observed.step_observer = StepTimes(steps.append)
    list(detect(claimed_template(deployment(), policy()), observed))
    assert steps == []
    list(detect(deployment(), observed))
    assert [done.step for done in steps] == [policy_matching.MATCH_POLICY]


def test_claimed_template_gets_binding() -> None:
    template = claimed_template(deployment(replicas=4), policy())
    effects = list(detect(template, view(policy(), raws=[template])))
    (made,) = bindings_in(effects)
    assert (made.name, made.namespace, made.spec.replicas) == ("web-deployment", "demo", 4)
    assert made.metadata.owner_references[0].uid == "uid-web"
    assert made.spec.resource.resource_version == "7"
    assert [note.reason for note in effects_of_type(effects, RecordEvent)] == [
        "GetReplicasSucceed",
        "ApplyPolicySucceed",
    ]


def test_only_a_new_binding_is_completed_by_the_scheduler() -> None:
    template = claimed_template(deployment(), policy())
    (made,) = effects_of_type(detect(template, view(policy(), raws=[template])), CreateCompleted)
    assert (made.wanted.name, made.by) == ("web-deployment", "schedule")
    assert effects_of_type(detect(template, view(policy(), binding(), raws=[template])), CreateCompleted) == []
    upstream = view(policy(), raws=[template], profile=UPSTREAM)
    assert effects_of_type(detect(template, upstream), CreateCompleted) == []


def test_fields_of_other_writers_stay_in_the_binding() -> None:
    seen = binding(clusters={"m1": 3})
    template = claimed_template(deployment(replicas=5), policy())
    (made,) = bindings_in(detect(template, view(policy(), seen, raws=[template])))
    assert made.spec.clusters == seen.spec.clusters
    assert made.spec.replicas == 5


def test_correct_binding_is_not_written() -> None:
    template = claimed_template(deployment(), policy())
    (made,) = bindings_in(detect(template, view(policy(), raws=[template])))
    again = made.but(metadata=made.metadata.but(resource_version="12"))
    assert bindings_in(detect(template, view(policy(), again, raws=[template]))) == []


def test_template_seen_for_the_first_time_keeps_its_binding_only_if_works_are_rendered_in_this_process() -> None:
    template = claimed_template(deployment(), policy())
    (made,) = bindings_in(detect(template, view(policy(), raws=[template])))
    later = claimed_template(deployment(resourceVersion="9"), policy())

    def versions_written(*running: str) -> list[str]:
        restarted = view(policy(), made, raws=[later], settings={RUNNING: frozenset(running)})
        written = bindings_in(detect(later, restarted))
        return [one.spec.resource.resource_version for one in written]

    assert versions_written("detect", "dispatch") == []
    assert versions_written("detect") == ["9"]


def test_claim_of_deleted_policy_is_released() -> None:
    template = claimed_template(deployment(), policy())
    effects = list(detect(template, view(binding(), raws=[template])))
    (released,) = bindings_in(effects)
    (unclaimed,) = effects_of_type(effects, Ensure)
    assert well_known.PP_ID not in released.metadata.labels
    assert unclaimed.wanted["metadata"]["labels"] == {}


def test_lazy_policy_applies_with_next_user_edit() -> None:
    lazy = policy(activation_preference="Lazy")
    template = claimed_template(deployment(), lazy)
    seen = view(lazy, raws=[template])
    key = well_known.ref_of_raw(template)._replace(uid="")
    seen.memory[TEMPLATE, key] = template_state(template, None)
    assert bindings_in(detect(template, seen)) == []
    edited = claimed_template(deployment(replicas=9), lazy)
    assert len(bindings_in(detect(edited, seen))) == 1


def test_resource_version_in_binding_follows_user_and_policy_changes_but_not_status() -> None:
    rule = policy()
    template = claimed_template(deployment(), rule)
    first = view(rule, raws=[template])
    effects = list(detect(template, first))
    (created,) = bindings_in(effects)
    (known,) = effects_of_type(effects, RememberInProcess)

    def version(policy: PropagationPolicy, annotations: dict[str, str] | None = None) -> list[str]:
        reported = claimed_template(deployment(resourceVersion="9", annotations=annotations or {}), policy)
        seen = view(policy, created, raws=[reported])
        seen.memory[known.topic, known.key] = known.value
        return [effect.spec.resource.resource_version for effect in bindings_in(detect(reported, seen))]

    assert version(rule) == []
    assert version(rule.but(metadata=rule.metadata.but(generation=2))) == ["9"]
    assert version(rule, {"work.karmada.io/conflict-resolution": "overwrite"}) == ["9"]


def test_template_state_is_remembered_without_matching_policy() -> None:
    (memory,) = detect(deployment(), view())
    assert isinstance(memory, RememberInProcess)


def test_template_in_reserved_namespace_is_not_propagated() -> None:
    assert list(detect(deployment(namespace="kube-system"), view(cluster_policy()))) == []
    assert list(detect(deployment(namespace="trimtab-system"), view(cluster_policy()))) == []


@pytest.mark.parametrize(
    ("kind", "namespace", "name"), [("Service", "default", "kubernetes"), ("ConfigMap", "demo", "kube-root-ca.crt")]
)
def test_objects_that_every_cluster_makes_are_propagated_only_as_upstream(kind: str, namespace: str, name: str) -> None:
    template = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace, "uid": "u"}}
    everything = cluster_policy(resource_selectors=[ResourceSelector(api_version="v1", kind=kind)])
    assert not list(detect(template, view(everything)))
    assert effects_of_type(detect(template, view(everything, profile=UPSTREAM)), Ensure)
    other = {**template, "metadata": {**template["metadata"], "name": "other"}}
    assert effects_of_type(detect(other, view(everything)), Ensure)


def test_control_plane_does_not_propagate_itself() -> None:
    """A policy may select all Deployments of the cluster in which the control plane runs."""
    inside = view(cluster_policy(), settings={OWN_NAMESPACE: "control"})
    assert list(detect(deployment(namespace="control"), inside)) == []
    assert list(detect(deployment(namespace="other"), inside)) != []


def test_status_change_alone_triggers_nothing() -> None:
    before = deployment()
    after = deployment(resourceVersion="8") | {"status": {"replicas": 1}}
    assert not content_changed(before, after)
    assert content_changed(before, deployment(replicas=9))
    assert content_changed(before, deployment(labels={"x": "y"}))


def test_policy_waits_for_dependent_overrides() -> None:
    waiting = policy(dependent_overrides=("missing",))
    template = claimed_template(deployment(), waiting)
    effects = list(detect(template, view(waiting, raws=[template])))
    assert bindings_in(effects) == []
    assert "missing" in effects_of_type(effects, RecordEvent)[0].message
    effects = list(detect(deployment(), view(waiting, raws=[deployment()], profile=UPSTREAM)))
    assert [type(effect) for effect in effects] == [RequeueAfter]
