"""A template and a policy that means it become a binding."""

from builders import binding, claimed, cluster_policy, deployment, policy
from views import FakeView

from trimtab.api.kinds.policy import PropagationPolicy
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.profile import UPSTREAM
from trimtab.controllers import well_known
from trimtab.controllers.contract import Again, Make, Note, Remember
from trimtab.controllers.propagation.detect import chosen, deserves_a_look, detect, said
from trimtab.interpret.interpreter import Interpreter


def view(*things, raws=(), **more) -> FakeView:
    return FakeView(things, raws=raws, parts={"interpreter": Interpreter.of()}, **more)


def kinds(wishes, type_):
    return [wish for wish in wishes if isinstance(wish, type_)]


def test_a_template_is_claimed_before_anything_else() -> None:
    (claim,) = kinds(detect(deployment(), view(policy())), Make)
    assert claim.wanted["metadata"]["labels"] == {well_known.PP_ID: "id-pp"}
    assert claim.wanted["metadata"]["annotations"] == {well_known.PP_NAMESPACE: "demo", well_known.PP_NAME: "pp"}


def test_a_claimed_template_gets_a_binding_that_says_what_both_say() -> None:
    template = claimed(deployment(replicas=4), policy())
    wishes = list(detect(template, view(policy(), raws=[template])))
    (made,) = kinds(wishes, ResourceBinding)
    assert (made.name, made.namespace, made.spec.replicas) == ("web-deployment", "demo", 4)
    assert made.metadata.owner_references[0].uid == "uid-web"
    assert made.spec.resource.resource_version == "7"
    assert [note.reason for note in kinds(wishes, Note)] == ["GetReplicasSucceed", "ApplyPolicySucceed"]


def test_what_others_wrote_into_the_binding_stays() -> None:
    seen = binding(clusters={"m1": 3})
    template = claimed(deployment(replicas=5), policy())
    (made,) = kinds(detect(template, view(policy(), seen, raws=[template])), ResourceBinding)
    assert made.spec.clusters == seen.spec.clusters
    assert made.spec.replicas == 5


def test_a_binding_that_is_right_is_left_alone() -> None:
    template = claimed(deployment(), policy())
    (made,) = kinds(detect(template, view(policy(), raws=[template])), ResourceBinding)
    again = made.but(metadata=made.metadata.but(resource_version="12"))
    assert kinds(detect(template, view(policy(), again, raws=[template])), ResourceBinding) == []


def test_the_namespaces_own_policy_beats_any_cluster_wide_one() -> None:
    wide = cluster_policy(priority=100)
    assert chosen(deployment(), view(policy(), wide)).name == "pp"
    assert chosen(deployment(), view(wide)).name == "cpp"


def test_priority_then_closeness_then_name_decide() -> None:
    high = policy("z", priority=2)
    named = policy("b", selects="web")
    any_ = policy("a")
    assert chosen(deployment(), view(any_, named, high)).name == "z"
    assert chosen(deployment(), view(any_, named)).name == "b"
    assert chosen(deployment(), view(any_, policy("c"))).name == "a"


def test_a_claim_by_a_policy_that_is_gone_is_given_up() -> None:
    template = claimed(deployment(), policy())
    wishes = list(detect(template, view(binding(), raws=[template])))
    (forgotten,) = kinds(wishes, ResourceBinding)
    (freed,) = kinds(wishes, Make)
    assert well_known.PP_ID not in forgotten.metadata.labels
    assert freed.wanted["metadata"]["labels"] == {}


def test_a_lazy_policy_waits_for_the_users_next_edit() -> None:
    lazy = policy(activation_preference="Lazy")
    template = claimed(deployment(), lazy)
    seen = view(lazy, raws=[template])
    key = well_known.ref_of_raw(template)._replace(uid="")
    seen.memory["template", key] = said(template, None)
    assert kinds(detect(template, seen), ResourceBinding) == []
    edited = claimed(deployment(replicas=9), lazy)
    assert len(kinds(detect(edited, seen), ResourceBinding)) == 1


def test_the_version_in_the_binding_moves_with_the_users_word_and_the_policys_not_with_the_status() -> None:
    rule = policy()
    template = claimed(deployment(), rule)
    first = view(rule, raws=[template])
    wishes = list(detect(template, first))
    (born,) = kinds(wishes, ResourceBinding)
    (known,) = kinds(wishes, Remember)

    def version(policy: PropagationPolicy, annotations: dict[str, str] | None = None) -> list[str]:
        reported = claimed(deployment(resourceVersion="9", annotations=annotations or {}), policy)
        seen = view(policy, born, raws=[reported])
        seen.memory[known.topic, known.key] = known.value
        return [wish.spec.resource.resource_version for wish in kinds(detect(reported, seen), ResourceBinding)]

    assert version(rule) == []
    assert version(rule.but(metadata=rule.metadata.but(generation=2))) == ["9"]
    assert version(rule, {"work.karmada.io/conflict-resolution": "overwrite"}) == ["9"]


def test_what_the_user_said_is_remembered_even_while_no_policy_means_it() -> None:
    (memory,) = detect(deployment(), view())
    assert isinstance(memory, Remember)


def test_a_template_of_the_control_planes_own_namespaces_is_not_propagated() -> None:
    assert list(detect(deployment(namespace="kube-system"), view(cluster_policy()))) == []


def test_a_change_of_status_alone_deserves_no_look() -> None:
    before = deployment()
    after = deployment(resourceVersion="8") | {"status": {"replicas": 1}}
    assert not deserves_a_look(before, after)
    assert deserves_a_look(before, deployment(replicas=9))
    assert deserves_a_look(before, deployment(labels={"x": "y"}))


def test_a_policy_waits_for_the_overrides_it_depends_on() -> None:
    waiting = policy(dependent_overrides=("missing",))
    template = claimed(deployment(), waiting)
    wishes = list(detect(template, view(waiting, raws=[template])))
    assert kinds(wishes, ResourceBinding) == []
    assert "missing" in kinds(wishes, Note)[0].message
    unclaimed = list(detect(deployment(), view(waiting, raws=[deployment()], profile=UPSTREAM)))
    assert [type(wish) for wish in unclaimed] == [Again]
