from typing import Any

import pytest

from trimtab.api.value import OwnerReference
from trimtab.decide.pods.budgets.scalable_kinds import Scalable, scalables

SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.pods"}


def definition(*versions: dict[str, Any]) -> dict[str, Any]:
    names = {"kind": "Game", "plural": "games"}
    return {"spec": {"group": "play.example", "scope": "Namespaced", "names": names, "versions": list(versions)}}


def version(name: str, *, served: bool = True, storage: bool = False, scale: Any = SCALE) -> dict[str, Any]:
    return {"name": name, "served": served, "storage": storage, "subresources": {"scale": scale} if scale else {}}


def game(*versions: dict[str, Any]) -> Scalable:
    (found,) = scalables([definition(*(versions or (version("v1", storage=True),)))])
    return found


def test_the_stored_version_is_read_else_the_first_served_one_that_has_a_scale() -> None:
    assert game(version("v1"), version("v2", storage=True)).api_version == "play.example/v2"
    assert game(version("v1", scale=None), version("v2", storage=True, served=False), version("v3")).version == "v3"
    assert list(scalables([definition(version("v1", scale=None))])) == []


def test_an_owner_is_of_the_kind_whatever_version_it_was_written_in() -> None:
    assert game().owns(OwnerReference(api_version="play.example/v1beta1", kind="Game"))
    assert not game().owns(OwnerReference(api_version="other.example/v1", kind="Game"))


def test_replicas_and_selector_are_where_the_definition_says() -> None:
    obj = {"spec": {"size": 4}, "status": {"pods": "app=game,tier in (a,b),!old"}}
    assert game().replicas(obj) == 4
    found = game().selector(obj)
    assert found is not None
    assert found.match_labels == {"app": "game"}
    assert found.matches({"app": "game", "tier": "a"})
    assert not found.matches({"app": "game", "tier": "a", "old": ""})
    assert not found.matches({"app": "game", "tier": "c"})


def test_two_rules_about_one_label_both_hold() -> None:
    found = game().selector({"status": {"pods": "app=a,app=b"}})
    assert found is not None
    assert not found.matches({"app": "a"})
    assert not found.matches({"app": "b"})


@pytest.mark.parametrize("text", [None, "", "a b", {"matchLabels": {}}, "size>3"])
def test_who_does_not_say_which_pods_are_its_own_has_no_selector(text: Any) -> None:
    assert game().selector({"status": {"pods": text}}) is None


def test_who_does_not_say_how_many_wants_nobody_knows_how_many() -> None:
    assert game().replicas({}) is None
    assert game().replicas({"spec": {"size": "4"}}) is None
