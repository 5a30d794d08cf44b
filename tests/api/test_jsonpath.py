from typing import Any

import pytest

from trimtab.api.jsonpath import InvalidJSONPath, find_locations, find_values, find_values_or_empty

OBJECT = {
    "spec": {"size": 3, "on": True},
    "metadata": {"labels": {"a.b/c": "x"}},
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "n": 1}, {"type": "Old", "status": "False", "n": 5}],
        "pods": {"one": {"ip": "1"}, "two": {"ip": "2"}},
        "numbers": [1, 2, 3, 4],
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        ("{.spec.size}", [3]),
        ("$.spec.size", [3]),
        ("spec.size", [3]),
        ("$", [OBJECT]),
        (".metadata.labels['a.b/c']", ["x"]),
        (".metadata.labels.a\\.b/c", ["x"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type != 'Ready')].type", ["Old"]),
        (".status.conditions[?(@.n > 2)].type", ["Old"]),
        (".status.conditions[?(@.n<=1)].type", ["Ready"]),
        (".status.conditions[?(@.nothing)].type", []),
        (".status.conditions[?(@.n)].type", ["Ready", "Old"]),
        (".status.conditions[?(@.type > 3)].type", ["Ready", "Old"]),
        (".status.numbers[?(@ >= 3)]", [3, 4]),
        (".status.conditions[*].type", ["Ready", "Old"]),
        (".status.conditions[-1].type", ["Old"]),
        (".status.conditions[7].type", []),
        (".status.numbers[1:3]", [2, 3]),
        (".status.numbers[:2]", [1, 2]),
        (".status.numbers[::2]", [1, 3]),
        (".status.numbers[0,3]", [1, 4]),
        (".status.pods.*.ip", ["1", "2"]),
        (".status.pods['one','two'].ip", ["1", "2"]),
        ("..ip", ["1", "2"]),
        (".nothing.here", []),
        (".spec.size.deeper", []),
    ],
)
def test_path_selects_its_values(path: str, found: list[Any]) -> None:
    assert find_values(OBJECT, path) == found


def test_boolean_compares_equal_to_its_text() -> None:
    assert find_values({"list": [{"on": True, "n": 1}, {"on": False, "n": 2}]}, '.list[?(@.on=="true")].n') == [1]


@pytest.mark.parametrize("path", [".spec[", ".spec[oops]", "..", ".list[?(on==1)]", ".list[?(@.a==oops)]", ".a]b"])
def test_invalid_path_raises_or_selects_nothing(path: str) -> None:
    with pytest.raises(InvalidJSONPath):
        find_values(OBJECT, path)
    assert find_values_or_empty(OBJECT, path) == []


def test_locations_are_the_keys_and_indexes_of_each_value() -> None:
    assert find_locations(OBJECT, '.status.conditions[?(@.type=="Old")].status') == [
        ("status", "conditions", 1, "status")
    ]
    assert find_locations(OBJECT, ".status.numbers[-1]") == [("status", "numbers", 3)]
    assert find_locations(OBJECT, "..ip") == [("status", "pods", "one", "ip"), ("status", "pods", "two", "ip")]


@pytest.mark.parametrize(
    "path",
    [
        "." + "a" * 5000,
        ".a[::0]",
        ".a[-:]",
        ".a[1:-]",
        ".a" + "[?(@.b" * 100 + ")]" * 100,
        "..*" * 20,
        "..*..*..*..*",
        "[?(@..*[?(@..*[?(@..*)])])]",
    ],
)
def test_path_that_costs_too_much_or_makes_no_sense_is_invalid(path: str) -> None:
    document: Any = 1
    for _ in range(60):
        document = {"a": document, "b": [1, 2, 3]}
    with pytest.raises(InvalidJSONPath):
        find_values(document, path)
    assert find_values_or_empty(document, path) == []


@pytest.mark.parametrize("path", ['.a["' + "\\x" * 1000, ".a[?(@.b" + " " * 4000 + "==x)]", ".a['" + "\\" * 4000 + "]"])
def test_crafted_path_is_refused_in_linear_time(path: str) -> None:
    with pytest.raises(InvalidJSONPath):
        find_values({}, path)
