import pytest

from trimtab.api.field_errors import format_causes
from trimtab.api.kinds.native.rules import common
from trimtab.api.value import Raw


@pytest.mark.parametrize(
    ("requirement", "error"),
    [
        ({"key": "a", "operator": "In", "values": ["b"]}, ""),
        ({"key": "a", "operator": "Exists"}, ""),
        (
            {"key": "a", "operator": "In"},
            "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            {"key": "a", "operator": "Exists", "values": ["b"]},
            (
                "s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or "
                "'DoesNotExist'"
            ),
        ),
        (
            {"key": "a", "operator": "Is"},
            's.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator',
        ),
    ],
)
def test_selector_requirements_are_checked(requirement: Raw, error: str) -> None:
    causes = list(common.check_selector({"matchExpressions": [requirement]}, "s"))
    assert (format_causes(causes) if causes else "") == error


@pytest.mark.parametrize(
    ("requirement", "labels", "matches"),
    [
        ({"key": "a", "operator": "In", "values": ["b"]}, {"a": "b"}, True),
        ({"key": "a", "operator": "In", "values": ["b"]}, {}, False),
        ({"key": "a", "operator": "NotIn", "values": ["b"]}, {}, True),
        ({"key": "a", "operator": "NotIn", "values": ["b"]}, {"a": "b"}, False),
        ({"key": "a", "operator": "Exists"}, {"a": "b"}, True),
        ({"key": "a", "operator": "DoesNotExist"}, {"a": "b"}, False),
    ],
)
def test_selector_matches_labels(requirement: Raw, labels: Raw, matches: bool) -> None:
    assert common.selector_matches({"matchExpressions": [requirement]}, labels) is matches
    assert not common.selector_matches({"matchLabels": {"other": "x"}, "matchExpressions": [requirement]}, labels)


def test_annotation_keys_may_have_upper_case_prefixes() -> None:
    assert not list(common.check_annotations({"Example.IO/key": "any value"}, "metadata.annotations"))
    assert [cause.field for cause in common.check_annotations({"a b": ""}, "metadata.annotations")] == [
        "metadata.annotations"
    ]


def test_wrong_annotation_keys_are_reported_in_the_order_of_the_keys() -> None:
    found = common.check_annotations({"c d": "", "valid": "", "a b": ""}, "metadata.annotations")
    assert [cause.message.split(":")[1].strip() for cause in found] == ['"a b"', '"c d"']


def test_label_values_are_checked() -> None:
    assert not list(common.check_labels({"example.io/key": "value"}, "metadata.labels"))
    assert [cause.field for cause in common.check_labels({"key": "a b"}, "metadata.labels")] == ["metadata.labels"]


@pytest.mark.parametrize("key", [".", "..", "..a", "a b", "a" * 254])
def test_invalid_config_keys_are_rejected(key: str) -> None:
    assert common.config_key_faults(key)


@pytest.mark.parametrize(("value", "is_valid"), [(0, True), ("25%", True), (-1, False), ("25", False), ("-1%", False)])
def test_count_or_percent_is_a_number_or_a_percentage(value: int | str, is_valid: bool) -> None:
    assert list(common.check_count_or_percent(value, "f")) is not is_valid


def test_percentage_is_limited_to_100() -> None:
    assert not list(common.check_at_most_100_percent("100%", "f"))
    assert len(list(common.check_at_most_100_percent("101%", "f"))) == 1


@pytest.mark.parametrize(("value", "amount"), [("30%", 30), ("x", 0), (3, 3), (None, 0)])
def test_count_or_percent_as_a_number(value: int | str | None, amount: int) -> None:
    assert common.count_or_percent_value(value) == amount


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [("http", True), ("a-1", True), ("80", False), ("a--b", False), ("-a", False), ("a" * 16, False)],
)
def test_port_names_are_checked(name: str, is_valid: bool) -> None:
    assert (not common.port_name_faults(name)) is is_valid


def test_each_repeated_value_is_reported() -> None:
    causes = common.check_unique([("a", "f[0]"), ("b", "f[1]"), ("a", "f[2]")])
    assert [cause.field for cause in causes] == ["f[2]"]


def test_negative_quantities_are_rejected() -> None:
    causes = list(common.check_quantities({"cpu": "-1", "memory": "1Gi"}, "f"))
    assert format_causes(causes) == 'f[cpu]: Invalid value: "-1": must be greater than or equal to 0'


@pytest.mark.parametrize(("key", "count"), [("Example.com/A", 0), ("example.com/A", 0), ("a b", 1), ("A/B/C", 1)])
def test_annotation_keys_are_checked_in_lower_case(key: str, count: int) -> None:
    assert len(list(common.check_annotations({key: ""}, "f"))) == count
