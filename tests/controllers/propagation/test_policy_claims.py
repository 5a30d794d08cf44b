"""Policies let go of what they no longer mean, and take over what is theirs by rank."""

from datetime import timedelta

from builders import NOON, binding, claimed, cluster_policy, deployment, policy
from views import FakeView

from trimtab.controllers import well_known
from trimtab.controllers.contract import Make
from trimtab.controllers.propagation.policy_claims import outranks, policies


def test_a_policy_without_an_id_gets_one_and_its_finalizer() -> None:
    bare = policy()
    bare = bare.but(metadata=bare.metadata.but(labels={}, finalizers=()))
    (named,) = policies(bare, FakeView([bare]))
    assert named.metadata.labels[well_known.PP_ID]
    assert named.metadata.finalizers == (well_known.POLICY_FINALIZER,)


def test_a_template_that_is_no_longer_meant_is_let_go() -> None:
    other = policy(selects="somebody-else")
    template = claimed(deployment(), other)
    forgotten, freed = policies(other, FakeView([other, binding()], raws=[template]))
    assert well_known.PP_ID not in forgotten.metadata.labels
    assert isinstance(freed, Make)


def test_a_deleted_policy_goes_when_nobody_carries_its_mark() -> None:
    dying = policy()
    dying = dying.but(metadata=dying.metadata.but(deletion_timestamp=NOON - timedelta(seconds=1)))
    (gone,) = policies(dying, FakeView([dying], raws=[deployment()]))
    assert gone.metadata.finalizers == ()
    wishes = list(policies(dying, FakeView([dying, binding()], raws=[claimed(deployment(), dying)])))
    assert not any(getattr(wish, "metadata", None) and wish.metadata.finalizers == () for wish in wishes)


def test_a_policy_of_higher_rank_takes_over_what_it_names() -> None:
    holder, strong = policy("pp"), policy("strong", selects="web", preemption="Always", priority=5)
    template = claimed(deployment(), holder)
    claim, note = policies(strong, FakeView([holder, strong], raws=[template]))
    assert claim.wanted["metadata"]["labels"][well_known.PP_ID] == "id-strong"
    assert note.reason == "PreemptPolicySucceed"
    equal = policy("equal", selects="web", preemption="Always")
    assert list(policies(equal, FakeView([holder, equal], raws=[template]))) == []


def test_a_namespaces_own_policy_outranks_cluster_wide_ones_and_never_the_other_way() -> None:
    assert outranks(policy(), cluster_policy(priority=9))
    assert not outranks(cluster_policy(priority=9), policy())
