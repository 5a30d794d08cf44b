"""YAML texts of any shape are either read as JSON values or refused, without recursion and with bounded work."""

import json
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.limits import MAX_DEPTH, MAX_NODES, MAX_NUMBER_LENGTH, MAX_TAG_DIRECTIVES
from trimtab.api.yaml_documents import (
    BODY,
    YamlError,
    YamlLimits,
    YamlTooLarge,
    _DocumentBuilder,
    load_yaml,
    load_yaml_documents,
)

NAMES = "abcdefghijklmnop"


def alias_bomb(levels: int, width: int = 9) -> str:
    lines = ["a: &a [" + ",".join(["x"] * width) + "]"]
    for inner, outer in pairwise(NAMES[: levels + 1]):
        lines.append(f"{outer}: &{outer} [" + ",".join([f"*{inner}"] * width) + "]")
    return "\n".join(lines)


def merge_bomb(levels: int, width: int = 30) -> str:
    lines = ["a: &a {k: 1}"]
    for inner, outer in pairwise(NAMES[: levels + 1]):
        lines.append(f"{outer}: &{outer} {{<<: [" + ",".join([f"*{inner}"] * width) + f"], {outer}: 1}}")
    return "\n".join(lines)


@pytest.mark.parametrize("opening", ["[", "- ", "{a: ", "? ", "[{a: ", "- a: ", "[? "])
def test_deep_nesting_is_refused_and_does_not_end_the_process(opening: str) -> None:
    script = (
        "import sys\nfrom trimtab.api.yaml_documents import *\n"
        "try:\n    load_yaml(sys.stdin.read(), FILE)\nexcept YamlError as error:\n    print('refused')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], input=opening * 400_000, text=True, capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "refused\n"), ended.stderr


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}")])
def test_depth_limit_is_exact(opening: str, closing: str) -> None:
    assert load_yaml(opening * MAX_DEPTH + "1" + closing * MAX_DEPTH) is not None
    with pytest.raises(YamlError, match="exceeded max depth"):
        load_yaml(opening * (MAX_DEPTH + 1) + "1" + closing * (MAX_DEPTH + 1))


def test_depth_counts_what_an_alias_contains() -> None:
    half = MAX_DEPTH // 2 + 1
    text = f"- &a {'[' * half}{']' * half}\n- {'[' * half}*a{']' * half}"
    with pytest.raises(YamlError, match="exceeded max depth"):
        load_yaml(text)


@pytest.mark.parametrize("bomb", [alias_bomb(8), merge_bomb(12), "a: &a [x]\nb: [" + "*a," * MAX_NODES + "]"])
def test_aliases_count_as_the_values_they_stand_for(bomb: str) -> None:
    with pytest.raises(YamlTooLarge, match="counting those of aliases"):
        load_yaml(bomb)


def test_alias_of_a_long_text_counts_its_bytes() -> None:
    with pytest.raises(YamlTooLarge, match="when its aliases are expanded"):
        load_yaml("a: &a " + "x" * 100_000 + "\nb: [" + "*a," * 100 + "]")


def test_number_of_events_that_are_read_is_bounded(monkeypatch) -> None:
    seen = 0
    count = _DocumentBuilder._count

    def counting(self: _DocumentBuilder, nodes: int, size: int) -> None:
        nonlocal seen
        seen += 1
        count(self, nodes, size)

    monkeypatch.setattr(_DocumentBuilder, "_count", counting)
    with pytest.raises(YamlTooLarge):
        load_yaml("".join(f"k{i}: v\n" for i in range(MAX_NODES + 1000)))
    assert seen <= 2 * MAX_NODES + 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: &a [*a]", "contains itself"),
        ("a: &a {b: {c: *a}}", "contains itself"),
        ("a: *b", "undefined alias"),
        ("a: " + "1" * (MAX_NUMBER_LENGTH + 1), "a number is longer"),
        ("a: " + "1:1" * 10_000, "a number is longer"),
        ("a: .nan", "cannot be converted to JSON"),
        ("a: -.inf", "cannot be converted to JSON"),
        ("a: 1.0e+999", "cannot be converted to JSON"),
        ("~: a", "a key must be a string"),
        ("{[1]: a}", "a key must be a string"),
        ("a: &a [1]\n*a : 2", "a key must be a string"),
        ("<<: 1", "map merge requires"),
        ("<<: [{a: 1}, 2]", "map merge requires"),
        ("!!python/object/apply:os.system [x]", "could not determine a constructor"),
        ("!!python/name:os.system x", "could not determine a constructor"),
        ("!!binary aGk=", "could not determine a constructor"),
        ("!!set {a, b}", "could not determine a constructor"),
        ("!!int x", "is not a int"),
        ("!!bool x", "is not a bool"),
        ("a: b\n---\nc: d", "expected a single document"),
        ("a: [", "did not find"),
        ("a: \x00", "control characters"),
        ("%TAG !a! b\n" * (MAX_TAG_DIRECTIVES + 1) + "--- a", "%TAG"),
        ("a: b".encode("utf-16"), "utf-8"),
        (b"a: \xff", "utf-8"),
    ],
)
def test_text_without_a_form_in_json_is_refused(text: str | bytes, why: str) -> None:
    with pytest.raises(YamlError, match=why):
        load_yaml(text)


def test_keys_and_large_integers_become_what_json_has() -> None:
    assert load_yaml("1: a\ntrue: b\n1.5: c\nd: 2026-01-02T03:04:05Z\ne: =\nf: <<") == {
        "1": "a",
        "true": "b",
        "1.5": "c",
        "d": "2026-01-02T03:04:05Z",
        "e": "=",
        "f": "<<",
    }
    assert load_yaml("a: 18446744073709551615\nb: 18446744073709551616") == {"a": 2**64 - 1, "b": float(2**64)}


def test_merge_keys_have_the_precedence_of_pyyaml() -> None:
    text = "a: &a {x: 1, y: 2}\nb: &b {x: 3, z: 4}\nc: {<<: [*a, *b], y: 9}\nd: {q: 1, <<: *a, <<: *b}\n"
    assert json.dumps(load_yaml(text)) == json.dumps(yaml.safe_load(text))


def test_documents_of_a_text_are_read_one_by_one() -> None:
    assert list(load_yaml_documents("a: 1\n---\n---\n[b]\n...\n")) == [{"a": 1}, None, ["b"]]
    assert load_yaml("") is None
    with pytest.raises(YamlTooLarge, match="longer than 3 bytes"):
        load_yaml("abcd", YamlLimits(10, 3))
    assert load_yaml("abc", YamlLimits(10, 3)) == "abc"


class _WithoutTimestamps(yaml.SafeLoader):
    yaml_implicit_resolvers = {
        first: [pair for pair in pairs if not pair[0].endswith("timestamp")]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@pytest.mark.parametrize("path", sorted(Path(__file__).parents[2].glob("examples/**/*.yaml")), ids=str)
def test_examples_are_read_as_by_pyyaml(path: Path) -> None:
    text = path.read_text()
    assert list(load_yaml_documents(text, BODY)) == list(yaml.load_all(text, Loader=_WithoutTimestamps))


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=30,
    )
)
def test_what_pyyaml_writes_is_read_back(value) -> None:
    assert load_yaml(yaml.safe_dump(value)) == value


@given(st.text(alphabet="[]{}:,-?&*!|>'\"%#<=a1 \n", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(YamlError):
        json.dumps(load_yaml(text), allow_nan=False)


def test_errors_of_the_parser_are_one_line_with_the_place() -> None:
    with pytest.raises(YamlError) as caught:
        load_yaml("kind: [oops\n")
    assert str(caught.value) == (
        "did not find expected ',' or ']' in line 2, column 1 (while parsing a flow sequence in line 1, column 7)"
    )
