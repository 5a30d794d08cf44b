import pytest

from interpret.cel.cel_helpers import CLUSTER, holds, program, scores
from trimtab.interpret.cel.cost import estimate_cost, loop_depth
from trimtab.interpret.cel.expressions import COST_LIMIT


@pytest.mark.parametrize(
    "expression",
    [
        'managedCluster.metadata.labels["env"] == "prod"',
        "!has(managedCluster.spec.taints)",
        'managedCluster.scores("demo").exists(s, s.name == "cost" && s.value > 5)',
        'managedCluster.?status.?nope.orValue("x") == "x"',
        '"{\\"a\\":1}".parseJSON().a == 1.0',
        '"12 ab 34".findAll("[0-9]+") == ["12", "34"] && "12 ab 34".findAll("[0-9]+", 1) == ["12"]',
    ],
)
def test_expression_holds_for_the_cluster(expression: str) -> None:
    assert holds(expression)


@pytest.mark.parametrize(
    "expression",
    [
        '"a".find("(") == ""',
        '"%d".format(["x"]) == "x"',
        '"abc".charAt(9) == ""',
        "1 + 1",
        "managedCluster.metadata.name",
        "size(managedCluster.spec.taints) == 0",
        'managedCluster.scores("nosuch").size() == 0',
        'semver(managedCluster.status.version.kubernetes).isGreaterThan(semver("1.29.0"))',
        '"no json".parseJSON() == null',
    ],
)
def test_error_or_any_value_but_true_does_not_match(expression: str) -> None:
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
def test_invalid_expression_is_rejected_with_its_position(expression: str) -> None:
    error = program(expression)
    assert isinstance(error, str)
    assert error.startswith("ERROR: <input>:1:")


def test_nested_loops_over_large_lists_are_not_evaluated() -> None:
    nested = "managedCluster.x.all(a, managedCluster.x.all(b, managedCluster.x.all(c, true)))"
    assert loop_depth(nested) == 3
    assert loop_depth("[1].all(a, true) && [2].all(b, true)") == 1
    large = {**CLUSTER, "x": list(range(200))}
    assert estimate_cost(nested, {"managedCluster": large}) > COST_LIMIT
    compiled = program(nested)
    assert not isinstance(compiled, str)
    assert not compiled(large, scores)
    assert compiled({**CLUSTER, "x": [1, 2]}, scores)
