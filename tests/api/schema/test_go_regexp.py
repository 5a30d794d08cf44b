"""Patterns mean what they mean to kube-apiserver, and cost no more than their text is long."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api.schema.go_regexp import TooLong, go_finder, go_pattern, pattern_fault

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


def go_all(pattern: str, text: str) -> list[str]:
    """What Go's FindAllString gives, with Python's matcher: an empty match right behind another one does not count."""
    found, last = [], -1
    for match in re.finditer(pattern.replace("$", r"\Z"), text, re.ASCII):
        if match.group() or match.start() != last:
            found.append(match.group())
        last = match.end()
    return found


@pytest.mark.parametrize("pattern", [*PATTERNS, "a+?", "ab|abc", "(a|ab)(c|bcd)", "a??b", "x*", "(?:ab){1,2}?", "c$"])
@settings(max_examples=60, deadline=None)
@given(text=st.text("abcABC09.-_@ \n", max_size=8))
def test_what_is_found_is_what_a_matcher_that_tries_everything_finds(pattern: str, text: str) -> None:
    finder = go_finder(pattern)
    assert finder is not None
    assert finder.all(text) == go_all(pattern, text)
    assert finder.all(text, 1) == go_all(pattern, text)[:1]


def test_a_search_that_would_look_at_the_whole_text_for_every_match_is_given_up() -> None:
    finder = go_finder("a.*b|a")
    assert finder is not None
    with pytest.raises(TooLong):
        finder.all("a" * 20_000, steps=100_000)


def test_a_pattern_that_only_python_knows_finds_nothing_here() -> None:
    assert go_finder("(?=a)") is None
