"""Policies release templates they no longer select, and preempt policies of lower rank."""

from datetime import timedelta

from builders import NOON, binding, claimed_template, cluster_policy, deployment, policy
from views import FakeView

from trimtab.controllers import well_known
from trimtab.controllers.contract import Ensure
from trimtab.controllers.propagation.policy_claims import outranks, policy_claims


def test_policy_gets_permanent_id_and_finalizer() -> None:
    bare = policy()
    bare = bare.but(metadata=bare.metadata.but(labels={}, finalizers=()))
    (updated,) = policy_claims(bare, FakeView([bare]))
    assert updated.metadata.labels[well_known.PP_ID]
    assert updated.metadata.finalizers == (well_known.POLICY_FINALIZER,)


def test_template_no_longer_selected_is_released() -> None:
    other = policy(selects="somebody-else")
    template = claimed_template(deployment(), other)
    unclaimed, released = policy_claims(other, FakeView([other, binding()], raws=[template]))
    assert isinstance(unclaimed, Ensure)
    assert well_known.PP_ID not in unclaimed.wanted["metadata"]["labels"]
    assert well_known.PP_ID not in released.metadata.labels


def test_release_is_finished_after_a_conflict() -> None:
    """The binding, by which the template is found, is released last."""
    other = policy(selects="somebody-else")
    (released,) = policy_claims(other, FakeView([other, binding()], raws=[deployment()]))
    assert well_known.PP_ID not in released.metadata.labels
    of_another = claimed_template(deployment(), policy("another", selects="web"))
    assert list(policy_claims(other, FakeView([other, binding()], raws=[of_another]))) == []


def test_deleted_policy_loses_finalizer_when_no_template_is_claimed() -> None:
    deleted = policy()
    deleted = deleted.but(metadata=deleted.metadata.but(deletion_timestamp=NOON - timedelta(seconds=1)))
    (finalized,) = policy_claims(deleted, FakeView([deleted], raws=[deployment()]))
    assert finalized.metadata.finalizers == ()
    effects = list(
        policy_claims(deleted, FakeView([deleted, binding()], raws=[claimed_template(deployment(), deleted)]))
    )
    assert not any(getattr(effect, "metadata", None) and effect.metadata.finalizers == () for effect in effects)


def test_policy_of_higher_priority_preempts_claims_by_name() -> None:
    claimant, strong = policy("pp"), policy("strong", selects="web", preemption="Always", priority=5)
    template = claimed_template(deployment(), claimant)
    claim, event = policy_claims(strong, FakeView([claimant, strong], raws=[template]))
    assert claim.wanted["metadata"]["labels"][well_known.PP_ID] == "id-strong"
    assert event.reason == "PreemptPolicySucceed"
    equal = policy("equal", selects="web", preemption="Always")
    assert list(policy_claims(equal, FakeView([claimant, equal], raws=[template]))) == []


def test_namespaced_policy_outranks_cluster_wide_policy() -> None:
    assert outranks(policy(), cluster_policy(priority=9))
    assert not outranks(cluster_policy(priority=9), policy())
