import pytest

from trimtab.interpret.cel import COST_LIMIT, Program, compiler, cost, loops_in_loops

CLUSTER = {
    "metadata": {"name": "c1", "labels": {"env": "prod"}},
    "spec": {"hubAcceptsClient": True},
    "status": {"conditions": None, "version": {"kubernetes": "v1.30.2"}, "allocatable": {"cpu": "3500m"}},
}


def scores(resource: str) -> dict[str, int] | None:
    return {"cost": 7} if resource == "demo" else None


def program(*expressions: str) -> Program | str:
    compile_ = compiler()
    assert compile_ is not None, "the extra `cel` belongs to the test requirements"
    return compile_(expressions)


def holds(*expressions: str) -> bool:
    made = program(*expressions)
    assert not isinstance(made, str), made
    return made(CLUSTER, scores)


@pytest.mark.parametrize(
    "expression",
    [
        'managedCluster.metadata.labels["env"] == "prod"',
        "!has(managedCluster.spec.taints)",
        'managedCluster.scores("demo").exists(s, s.name == "cost" && s.value > 5)',
        'quantity(managedCluster.status.allocatable.cpu).isGreaterThan(quantity("3"))',
        'quantity("1000m") == quantity("1")',
        'quantity("1.5").add(quantity("500m")).asInteger() == 2',
        'semver(managedCluster.status.version.kubernetes.substring(1)).isGreaterThan(semver("1.30.0"))',
        'semver("1.2.3-rc.1").isLessThan(semver("1.2.3"))',
        '!isSemver("v1.2.3")',
        'ip("10.1.2.3").family() == 4',
        'cidr("10.0.0.0/8").containsIP("10.1.2.3")',
        'cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16")',
        'url("https://a.example:6443/x?y=1").getPort() == "6443"',
        "[3, 1, 2].max() == 3 && [1, 2].sum() == 3 && [1, 2].isSorted()",
        'managedCluster.?status.?nope.orValue("x") == "x"',
        '"{\\"a\\":1}".parseJSON().a == 1.0',
    ],
)
def test_what_people_ask_of_a_cluster_is_answered(expression: str) -> None:
    assert holds(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "1 + 1",
        "managedCluster.metadata.name",
        "size(managedCluster.spec.taints) == 0",
        'managedCluster.scores("nosuch").size() == 0',
        'semver(managedCluster.status.version.kubernetes).isGreaterThan(semver("1.29.0"))',
        '"no json".parseJSON() == null',
    ],
)
def test_an_error_or_anything_but_true_is_no_match(expression: str) -> None:
    assert not holds(expression)


def test_all_expressions_must_hold() -> None:
    assert holds("true", 'managedCluster.metadata.name == "c1"')
    assert not holds("true", "false")


@pytest.mark.parametrize(
    "expression",
    [
        "invalid.expression",
        "managedCluster.",
        '"a" + 1',
        "nosuchfn(1)",
        "cel.bind(x, 1, x == 1)",
        "math.greatest(1, 2) == 2",
        'quantity("1").isGreaterThan(semver("1.2.3"))',
    ],
)
def test_what_is_no_expression_about_clusters_is_refused_in_words(expression: str) -> None:
    refused = program(expression)
    assert isinstance(refused, str)
    assert refused.startswith("ERROR: <input>:1:")


def test_loops_in_loops_over_large_lists_are_never_run() -> None:
    nested = "managedCluster.x.all(a, managedCluster.x.all(b, managedCluster.x.all(c, true)))"
    assert loops_in_loops(nested) == 3
    assert loops_in_loops("[1].all(a, true) && [2].all(b, true)") == 1
    large = {**CLUSTER, "x": list(range(200))}
    assert cost(nested, large) > COST_LIMIT
    made = program(nested)
    assert not isinstance(made, str)
    assert not made(large, scores)
    assert made({**CLUSTER, "x": [1, 2]}, scores)
