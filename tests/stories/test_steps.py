"""The actions of stories on a fleet."""

from typing import Any

import pytest

from trimtab.clock import run_virtually
from trimtab.errors import InputError
from trimtab.stories.report import StoryFailed
from trimtab.stories.runner import run_in_memory
from trimtab.stories.story import parse_story

FLEET = {"members": [{"name": "one", "nodes": 2, "cpu": "4"}]}
CONTAINER = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}},
    },
}
RUNNING = {"in": "one", "apply": [DEPLOYMENT]}
READY = "ready(one:Pod/web-*) == 2"


def run(*timeline: dict[str, Any], expect: str = "exists(Cluster/one)") -> list[str]:
    """The lines of a story with these steps."""
    steps = [{**step, "apply": step.get("apply", [])} for step in timeline]
    story = parse_story({"name": "x", "fleet": FLEET, "timeline": steps, "expect": [{"that": expect, "within": "5m"}]})
    lines: list[str] = []
    run_virtually(run_in_memory(story, lambda _, text: lines.append(text)))
    return lines


def test_objects_are_written_in_a_member() -> None:
    scale = {"when": READY, "in": "one", "scale": {"object": "Deployment/web", "replicas": 3}}
    lines = run(RUNNING, scale, expect="ready(one:Pod/web-*) == 3")
    assert "apply Deployment/web in one" in lines
    assert "scale Deployment/web in one to 3" in lines


def test_object_is_patched_and_deleted_in_the_host() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    patch = {"patch": {"object": "ConfigMap/a", "body": {"data": {"k": "w"}}}}
    delete = {"when": "ConfigMap/a.data.k == w", "delete": "ConfigMap/default/a"}
    assert "delete ConfigMap/default/a" in run({"apply": [config]}, patch, delete, expect="missing(ConfigMap/a)")


def test_app_fails_and_recovers() -> None:
    fail = {"when": READY, "fail": {"app": "default/web", "how": "not-ready"}}
    recover = {"when": "ready(one:Pod/web-*) == 0", "recover": {"app": "default/web"}}
    lines = run(RUNNING, fail, recover, expect=READY)
    assert "default/web fails in one: not-ready" in lines
    assert "default/web recovers in one" in lines


def test_unknown_way_to_fail_is_refused() -> None:
    with pytest.raises(InputError, match="how: is 'oddly'; it must be one of not-ready, crash, out-of-memory"):
        run({"fail": {"app": "default/web", "how": "oddly"}})


def test_evictions_are_counted() -> None:
    evict = {"when": READY, "evict": {"cluster": "one", "pods": "web-*", "count": 1, "granted": 1}}
    assert "evict 1 of web-* in one: 1 granted" in run(RUNNING, evict)
    wrong = {"when": READY, "evict": {"cluster": "one", "pods": "web-*", "granted": 1}}
    with pytest.raises(StoryFailed, match="1 eviction must be granted, and 2 were"):
        run(RUNNING, wrong)


def test_taint_with_no_execute_has_the_time_and_is_removed_by_key() -> None:
    taint = {"taint": {"cluster": "one", "key": "maintenance", "effect": "NoExecute"}}
    untaint = {
        "when": 'Cluster/one.spec.taints[key=maintenance].timeAdded != ""',
        "untaint": {"cluster": "one", "key": "maintenance"},
    }
    lines = run(taint, untaint, expect="missing(Cluster/one.spec.taints[key=maintenance])")
    assert "taint one: maintenance:NoExecute" in lines
    assert "untaint one: maintenance" in lines


def test_score_is_published_with_its_validity() -> None:
    score = {"score": {"cluster": "one", "resource": "price", "scores": {"cpu": 40}, "valid": "10m"}}
    lines = run(score, expect='AddOnPlacementScore/one/price.status.validUntil != ""')
    assert "score price of one: {'cpu': 40}" in lines


def test_control_plane_is_down_for_the_given_time() -> None:
    lines = run({"restart": {"down": "30s"}})
    assert lines.index("the control plane stops") < lines.index("the control plane starts")


def test_member_joins_and_leaves() -> None:
    leave = {"when": "ready(Cluster/two) == 1", "leave": "two"}
    lines = run({"join": {"name": "two", "nodes": 1}}, leave, expect="missing(Cluster/two)")
    assert "two joins" in lines
    assert "unjoin two" in lines
