"""Patterns match as in Go, in time linear in the length of the text."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api.schema.go_regexp import StepLimitExceeded, go_finder, go_matcher, pattern_error

PATTERNS = [
    "a|bc*", "^a+$", "(ab)+c?", "a{2,3}b", "[^ab]", r"\d+\.\d*", r"\bab\b", r"a\Bb", "(?i)Ab", "(?s)a.b", "a.b", "a*?b", "",
    r"^[a-z]([-a-z0-9]*[a-z0-9])?$", "(a*)*b", "(|a)+b", "(?:a|(?i:B))c", r"[\w-]+@\S", "^(a|b){0,2}c", "[a-c]{2}|^$", r"\D\W\s",
]  # fmt: skip


def test_dollar_matches_only_at_the_very_end() -> None:
    matches = go_matcher("^[[:alpha:]$]+$")
    assert matches is not None
    assert matches("a$")
    assert not matches("a\n")


def test_invalid_pattern_has_gos_error_and_go_only_syntax_is_ignored() -> None:
    assert pattern_error("(") == "missing closing ): `(`"
    assert pattern_error("a)") == "unexpected ): `a)`"
    assert pattern_error("[a") == "missing closing ]: `[a`"
    assert pattern_error(r"\p{L}") == ""
    assert go_matcher(r"\p{L}") is None
    assert go_matcher("(?=a)") is None


def test_deeply_nested_pattern_is_rejected() -> None:
    assert pattern_error("(" * 5000 + ")" * 5000).startswith("expression nests too deeply")


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=60, deadline=None)
@given(text=st.text("abcABC09.-_@ \n", max_size=8))
def test_matcher_agrees_with_a_backtracking_matcher(pattern: str, text: str) -> None:
    matches = go_matcher(pattern)
    assert matches is not None
    assert matches(text) == bool(re.search(pattern.replace("$", r"\Z"), text, re.ASCII))


def test_search_continues_after_the_cache_is_cleared() -> None:
    matches = go_matcher("x(ab|cd)*y")
    assert matches is not None
    assert matches("".join(map(chr, range(200, 30_000))) + "xabcdy")


def find_all_with_python(pattern: str, text: str) -> list[str]:
    """The result of Go's FindAllString, by Python's matcher: an empty match directly after another one does not count."""
    found, last = [], -1
    for match in re.finditer(pattern.replace("$", r"\Z"), text, re.ASCII):
        if match.group() or match.start() != last:
            found.append(match.group())
        last = match.end()
    return found


@pytest.mark.parametrize("pattern", [*PATTERNS, "a+?", "ab|abc", "(a|ab)(c|bcd)", "a??b", "x*", "(?:ab){1,2}?", "c$"])
@settings(max_examples=60, deadline=None)
@given(text=st.text("abcABC09.-_@ \n", max_size=8))
def test_finder_agrees_with_a_backtracking_matcher(pattern: str, text: str) -> None:
    finder = go_finder(pattern)
    assert finder is not None
    assert finder.find_all(text) == find_all_with_python(pattern, text)
    assert finder.find_all(text, 1) == find_all_with_python(pattern, text)[:1]


def test_quadratic_search_exceeds_the_step_limit() -> None:
    finder = go_finder("a.*b|a")
    assert finder is not None
    with pytest.raises(StepLimitExceeded):
        finder.find_all("a" * 20_000, steps=100_000)


def test_python_only_pattern_has_no_finder() -> None:
    assert go_finder("(?=a)") is None
