"""Invalid names are rejected with the messages of Kubernetes."""

import pytest

from trimtab.api.names import (
    label_faults,
    label_value_faults,
    qualified_name_faults,
    service_name_faults,
    subdomain_faults,
)


@pytest.mark.parametrize("key", ["app", "a.b/c", "A_b-c.d", "x" * 63, "example.com/" + "x" * 63])
def test_valid_label_keys_have_no_errors(key: str) -> None:
    assert qualified_name_faults(key) == ()


@pytest.mark.parametrize(
    ("key", "beginnings"),
    [
        ("", ["name part must be non-empty", "name part must consist of"]),
        ("a b", ["name part must consist of"]),
        ("/a", ["prefix part must be non-empty"]),
        ("A.b/c", ["prefix part a lowercase RFC 1123 subdomain"]),
        ("a/b/c", ["a qualified name must consist of"]),
        ("x" * 64, ["name part must be no more than 63 bytes"]),
        ("a\n", ["name part must consist of"]),
    ],
)
def test_invalid_label_keys_report_all_errors(key: str, beginnings: list[str]) -> None:
    faults = qualified_name_faults(key)
    assert len(faults) == len(beginnings)
    assert all(fault.startswith(beginning) for fault, beginning in zip(faults, beginnings, strict=True))


def test_label_values_may_be_empty_but_not_invalid() -> None:
    assert label_value_faults("") == []
    assert label_value_faults("a_b.c-1") == []
    assert len(label_value_faults("-" + "x" * 63)) == 2


def test_object_names_follow_the_rule_of_their_kind() -> None:
    assert subdomain_faults("a.b-c") == []
    assert subdomain_faults("A") != []
    assert label_faults("a.b") != []
    assert service_name_faults("1a") != []
    assert service_name_faults("a1") == []
