import pytest

from interpret.cel.cel_helpers import holds
from trimtab.interpret.cel.formats import wrap_optional_calls


@pytest.mark.parametrize(
    "expression",
    [
        "!format.dns1123Label().validate(managedCluster.metadata.name).hasValue()",
        'format.dns1123Label().validate("Not.A.Label").value()[0].startsWith("a lowercase RFC 1123 label")',
        'format.named("uuid").value().validate("no").hasValue() && !format.named("nosuch").hasValue()',
        '!format.dns1123LabelPrefix().validate("a-").hasValue() && format.dns1123Label().validate("a-").hasValue()',
        '["a.b", "A"].filter(x, format.labelValue().validate(x) == optional.none()).size() == 2',
        '"format.named(1) ok".contains("format.named(1)")',
    ],
)
def test_formats_return_optional_errors(expression: str) -> None:
    assert holds(expression)


@pytest.mark.parametrize(
    ("expression", "wrapped"),
    [
        ("size('format') == 6", "size('format') == 6"),
        ("format.named(x)", "optional.ofNonZeroValue(format.named(x))"),
        (
            "format.uri().validate(a[0]) == b",
            "optional.ofNonZeroValue(format.uri().validate(a[0])) == b",
        ),
        ("'format.named(x)'", "'format.named(x)'"),
        ("format.named(x", "format.named(x"),
    ],
)
def test_only_calls_that_return_optional_values_are_wrapped(expression: str, wrapped: str) -> None:
    assert wrap_optional_calls(expression) == wrapped
