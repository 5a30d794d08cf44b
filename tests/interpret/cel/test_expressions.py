import json

import pytest
from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from trimtab.interpret.cel.expressions import COST_LIMIT, Program, compiler, cost, loops_in_loops

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
        '"v1.30.2-gke.5".find("[0-9]+[.][0-9]+") == "1.30" && "abc".find("[0-9]+") == ""',
        '"12 ab 34".findAll("[0-9]+") == ["12", "34"] && "12 ab 34".findAll("[0-9]+", 1) == ["12"]',
        '["a", "b", "b"].indexOf("b") == 1 && ["a", "b", "b"].lastIndexOf("b") == 2 && [1].indexOf("b") == -1',
        "[1, 2].indexOf(2) == 1 && [[1], [2]].indexOf([2]) == 1 && [true].indexOf(1) == -1 && [null].indexOf(null) == 0",
        'string(ip("10.0.0.1")) == "10.0.0.1" && string(cidr("10.0.0.0/8")) == "10.0.0.0/8" && string(7) == "7"',
        'ip.isCanonical("2001:db8::1") && !ip.isCanonical("2001:DB8::1")',
        'ip("224.0.0.1").isLinkLocalMulticast() && !ip("224.0.1.1").isLinkLocalMulticast()',
        'url("https://a.example/x y?q=a%20b&q=c").getQuery()["q"] == ["a b", "c"]',
        'url("https://a.example/x y").getEscapedPath() == "/x%20y" && !isURL("https://a.example/%zz")',
        "!format.dns1123Label().validate(managedCluster.metadata.name).hasValue()",
        'format.dns1123Label().validate("Not.A.Label").value()[0].startsWith("a lowercase RFC 1123 label")',
        'format.named("uuid").value().validate("no").hasValue() && !format.named("nosuch").hasValue()',
        '!format.dns1123LabelPrefix().validate("a-").hasValue() && format.dns1123Label().validate("a-").hasValue()',
        '["a.b", "A"].filter(x, format.labelValue().validate(x) == optional.none()).size() == 2',
        '"format.named(1) ok".contains("format.named(1)")',
    ],
)
def test_what_people_ask_of_a_cluster_is_answered(expression: str) -> None:
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


THEIRS = cel.NewEnv(extensions=[ext_strings.ExtStrings()])
WITH_EVALUATORS_OWN_STRINGS = [
    '"hello".charAt(1)', '"hello".charAt(5)', '"hello".charAt(6)', '"hello".indexOf("l")', '"hello".indexOf("l", 3)',
    '"hello".indexOf("", 2)', '"hello".indexOf("z")', '"hello".indexOf("l", 9)', '"hello".lastIndexOf("l")',
    '"hello".lastIndexOf("l", 2)', '"hello".lastIndexOf("", 3)', '"hello".lastIndexOf("h", -1)', '"a".join()', '["a", "b"].join()',
    '["a", "b"].join("-")', '[].join("-")', '"HéLLO".lowerAscii()', '"héllo".upperAscii()', '"hello".replace("l", "L")',
    '"hello".replace("l", "L", 1)', '"hello".replace("l", "L", 0)', '"hello".replace("", "_")', '"hello".replace("", "_", 2)',
    '"a,b,c".split(",")', '"a,b,c".split(",", 2)', '"a,b,c".split(",", 0)', '"a,b,c".split(",", 1)', '"abc".split("")',
    '"abc".split("", 2)', '"".split(",")', '"tacocat".substring(4)', '"tacocat".substring(0, 4)', '"tacocat".substring(8)',
    '"tacocat".substring(3, 2)', '"  a\\tb \\n".trim()', '"gums".reverse()', 'strings.quote("a\\"b\\\\c\\n")',
    '"%s, %d%%".format(["x", 3])', '"%.2f".format([1.2345])', '"%f".format([2])', '"%e".format([1234.5])', '"%x".format([255])',
    '"%X".format(["hi"])', '"%x".format([b"hi"])', '"%o".format([8])', '"%b".format([5])', '"%b".format([true])', '"%s".format([1.5])',
    '"%s".format([[1, "a", null]])', '"%s".format([{"b": 1, "a": true}])', '"%s".format([duration("90s")])', '"%s".format([])',
    '"%s".format([timestamp("2026-01-02T03:04:05Z")])', '"%d".format([-7])', '"%q".format([1])', '"%".format([1])', '"%s".format([b"x"])',
]  # fmt: skip


@pytest.mark.parametrize("expression", WITH_EVALUATORS_OWN_STRINGS)
def test_texts_are_treated_as_by_the_evaluators_own_extension(expression: str) -> None:
    try:
        value = THEIRS.compile(expression).eval(data={})
        answer = None if value.type() == cel.Type.ERROR else value.plain_value()
    except RuntimeError:
        answer = None
    made = program(f"{expression} == {json.dumps(answer)}")
    if answer is None:
        assert isinstance(made, str) or not made(CLUSTER, scores)
    else:
        assert not isinstance(made, str), made
        assert made(CLUSTER, scores), answer
