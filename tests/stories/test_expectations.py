from typing import Any

import pytest

from trimtab.errors import InputError
from trimtab.stories.expectations import Expression, ObjectPattern

BINDING = {
    "kind": "ResourceBinding",
    "metadata": {"name": "web-deployment", "namespace": "default", "labels": {"a.b/c": "d"}},
    "spec": {"clusters": [{"name": "m2", "replicas": 4}, {"name": "m1", "replicas": 2}]},
    "status": {"conditions": [{"type": "Scheduled", "status": "True"}, {"type": "FullyApplied", "status": "False"}]},
}
PODS = [
    {
        "metadata": {"name": f"web-{n}", "namespace": "default"},
        "status": {"conditions": [{"type": "Ready", "status": s}]},
    }
    for n, s in enumerate(["True", "True", "False"])
]
OBJECTS = {"ResourceBinding": [BINDING], "Pod": PODS, "Cluster": [{"metadata": {"name": "m1"}}], "Nothing": []}


def find(ref: ObjectPattern) -> list[Any]:
    return [obj for obj in OBJECTS[ref.kind] if ref.matches(obj)]


@pytest.mark.parametrize(
    "text",
    [
        "ResourceBinding/default/web-deployment.status.conditions[type=Scheduled].status == True",
        "ResourceBinding/web-deployment.spec.clusters[name=m1].replicas == 2",
        "sum(ResourceBinding/web-deployment.spec.clusters.replicas) == 6",
        'placement(ResourceBinding/web-deployment) == "m1=2 m2=4"',
        'ResourceBinding/web-deployment.metadata.labels["a.b/c"] == d',
        "ResourceBinding/web-deployment.spec.clusters[0].name == m2",
        "ResourceBinding/web-deployment.spec.clusters.name == [m1, m2]",
        "ready(*:Pod/default/web-*) == 2 and count(*:Pod/web-*) == 3",
        "ready(Pod/web-*) + 1 == count(Pod/web-*)",
        "count(Pod/web-*) - ready(Pod/web-*) == 1",
        "exists(Cluster/m1) and missing(Cluster/m9)",
        "not exists(Nothing/x) or exists(Nothing/y)",
        "Cluster/m1.spec.taints == null",
        "min(ResourceBinding/web-deployment.spec.clusters.replicas) >= 2",
        "Cluster/m1.metadata.name in [m1, m2]",
        "(exists(Nothing/x) or exists(Cluster/m1)) and not exists(Nothing/x)",
    ],
)
def test_expression_is_true(text: str) -> None:
    assert Expression(text).is_true(find)


@pytest.mark.parametrize(
    "text",
    [
        "ResourceBinding/web-deployment.status.conditions[type=FullyApplied].status == True",
        "ResourceBinding/web-deployment.spec.nothing > 1",
        "ResourceBinding/web-deployment.spec.clusters.replicas == 2",
        "Nothing/*.spec.replicas == 2",
        "Cluster/m9",
    ],
)
def test_expression_is_false(text: str) -> None:
    assert not Expression(text).is_true(find)


@pytest.mark.parametrize("text", ["", "a ==", "nosuch(Cluster/m1)", "Cluster/m1.", "Cluster/m1[", "(true", "1 2", "§"])
def test_invalid_expression_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Expression(text)


def test_values_of_terms_are_shown() -> None:
    values = dict(Expression("ready(Pod/web-*) == count(Pod/web-*)").term_values(find))
    assert values["ready(Pod/web-*)"] == 2
    assert values["count(Pod/web-*)"] == 3
