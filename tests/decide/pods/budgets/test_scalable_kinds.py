from typing import Any

import pytest

from trimtab.api.value import OwnerReference
from trimtab.decide.pods.budgets.scalable_kinds import ScalableKind, scalable_kinds_of

SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.pods"}


def definition(*versions: dict[str, Any]) -> dict[str, Any]:
    names = {"kind": "Game", "plural": "games"}
    return {"spec": {"group": "play.example", "scope": "Namespaced", "names": names, "versions": list(versions)}}


def version(name: str, *, served: bool = True, storage: bool = False, scale: Any = SCALE) -> dict[str, Any]:
    return {"name": name, "served": served, "storage": storage, "subresources": {"scale": scale} if scale else {}}


def game(*versions: dict[str, Any]) -> ScalableKind:
    (found,) = scalable_kinds_of([definition(*(versions or (version("v1", storage=True),)))])
    return found


def test_stored_version_is_read_else_the_first_served_one_with_a_scale() -> None:
    assert game(version("v1"), version("v2", storage=True)).api_version == "play.example/v2"
    assert game(version("v1", scale=None), version("v2", storage=True, served=False), version("v3")).version == "v3"
    assert list(scalable_kinds_of([definition(version("v1", scale=None))])) == []


def test_owner_matches_the_kind_in_any_version() -> None:
    assert game().is_kind_of(OwnerReference(api_version="play.example/v1beta1", kind="Game"))
    assert not game().is_kind_of(OwnerReference(api_version="other.example/v1", kind="Game"))


def test_replicas_and_selector_are_read_at_the_paths_of_the_crd() -> None:
    obj = {"spec": {"size": 4}, "status": {"pods": "app=game,tier in (a,b),!old"}}
    assert game().replicas(obj) == 4
    found = game().selector(obj)
    assert found is not None
    assert found.match_labels == {"app": "game"}
    assert found.matches({"app": "game", "tier": "a"})
    assert not found.matches({"app": "game", "tier": "a", "old": ""})
    assert not found.matches({"app": "game", "tier": "c"})


def test_two_requirements_on_one_label_both_apply() -> None:
    found = game().selector({"status": {"pods": "app=a,app=b"}})
    assert found is not None
    assert not found.matches({"app": "a"})
    assert not found.matches({"app": "b"})


@pytest.mark.parametrize("text", [None, "", "a b", {"matchLabels": {}}, "size>3"])
def test_missing_or_invalid_selector_is_none(text: Any) -> None:
    assert game().selector({"status": {"pods": text}}) is None


def test_missing_or_invalid_replicas_are_none() -> None:
    assert game().replicas({}) is None
    assert game().replicas({"spec": {"size": "4"}}) is None
