"""Patterns mean what they mean to kube-apiserver, and cost no more than their text is long."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api.patterns import go_pattern, pattern_fault

PATTERNS = [
    "a|bc*", "^a+$", "(ab)+c?", "a{2,3}b", "[^ab]", r"\d+\.\d*", r"\bab\b", r"a\Bb", "(?i)Ab", "(?s)a.b", "a.b", "a*?b", "",
    r"^[a-z]([-a-z0-9]*[a-z0-9])?$", "(a*)*b", "(|a)+b", "(?:a|(?i:B))c", r"[\w-]+@\S", "^(a|b){0,2}c", "[a-c]{2}|^$", r"\D\W\s",
]  # fmt: skip


def test_the_end_of_a_pattern_is_the_end_of_the_text() -> None:
    matches = go_pattern("^[[:alpha:]$]+$")
    assert matches is not None
    assert matches("a$")
    assert not matches("a\n")


def test_a_pattern_that_cannot_be_read_is_explained_and_one_that_only_python_cannot_read_is_let_pass() -> None:
    assert pattern_fault("(") == "missing closing ): `(`"
    assert pattern_fault("a)") == "unexpected ): `a)`"
    assert pattern_fault("[a") == "missing closing ]: `[a`"
    assert pattern_fault(r"\p{L}") == ""
    assert go_pattern(r"\p{L}") is None
    assert go_pattern("(?=a)") is None


def test_a_pattern_that_nests_too_deeply_is_refused() -> None:
    assert pattern_fault("(" * 5000 + ")" * 5000).startswith("expression nests too deeply")


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=60, deadline=None)
@given(text=st.text("abcABC09.-_@ \n", max_size=8))
def test_the_answer_is_that_of_a_matcher_that_tries_everything(pattern: str, text: str) -> None:
    matches = go_pattern(pattern)
    assert matches is not None
    assert matches(text) == bool(re.search(pattern.replace("$", r"\Z"), text, re.ASCII))


def test_steps_that_are_forgotten_are_taken_again() -> None:
    matches = go_pattern("x(ab|cd)*y")
    assert matches is not None
    assert matches("".join(map(chr, range(200, 30_000))) + "xabcdy")
