"""Patterns match as in Go, in time linear in the length of the text."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api.schema.go_regexp import StepLimitExceeded, go_finder, go_matcher, pattern_error, reset_match_steps

PATTERNS = [
    "a|bc*", "^a+$", "(ab)+c?", "a{2,3}b", "[^ab]", r"\d+\.\d*", r"\bab\b", r"a\Bb", "(?i)Ab", "(?s)a.b", "a.b", "a*?b", "",
    r"^[a-z]([-a-z0-9]*[a-z0-9])?$", "(a*)*b", "(|a)+b", "(?:a|(?i:B))c", r"[\w-]+@\S", "^(a|b){0,2}c", "[a-c]{2}|^$", r"\D\W\s",
]  # fmt: skip


def test_dollar_matches_only_at_the_very_end() -> None:
    matches = go_matcher("^[[:alpha:]$]+$")
    assert matches is not None
    assert matches("a$")
    assert not matches("a\n")


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("[]", "missing closing ]: `[]`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a|+", "missing argument to repetition operator: `+`"),
        ("(?i)*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a++", "invalid nested repetition operator: `++`"),
        ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("((a{100}){100}){100}", "invalid repeat count: `{100}`"),
        ("(((){1000}){1000}){1000}", "invalid repeat count: `{1000}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        ("(?<=a)", "invalid or unsupported Perl syntax: `(?<=`"),
        ("(?>a)", "invalid or unsupported Perl syntax: `(?>`"),
        ("(?#a)", "invalid or unsupported Perl syntax: `(?#`"),
        ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
        ("(?P=n)", "invalid or unsupported Perl syntax: `(?P`"),
        ("(?P<n-m>a)", "invalid named capture: `(?P<n-m>`"),
        ("(?P<n>a)(?P<n>b)", "invalid named capture: `(?P<n>`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        (r"a\Z", r"invalid escape sequence: `\Z`"),
        (r"\u1234", r"invalid escape sequence: `\u`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        (r"\x{110000}", r"invalid escape sequence: `\x`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"\p{Nonsense}", r"invalid character class range: `\p{Nonsense}`"),
        (r"\p", r"invalid character class range: `\p`"),
        (r"[a\p{Greek}]", r"invalid character class range: `\p{Greek}`"),
        ("(a{500}|b{500}c{500}){2}" * 20, "expression too large: `"),
        ("a" * 20_000, "expression too large: it is longer than"),
    ],
)
def test_pattern_that_cannot_be_compiled_has_gos_error(pattern: str, error: str) -> None:
    assert pattern_error(pattern).startswith(error)
    assert go_matcher(pattern) is None
    assert go_finder(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (r"^\p{L}+$", ["aé日"], ["1", "a1", ""]),
        (r"^\pL\PL$", ["a1"], ["ab"]),
        (r"^[\p{Lu}\p{Nd}_]+$", ["A1_", "É٣"], ["a"]),
        (r"^\P{L}$", ["1"], ["a"]),
        (r"^\p{^L}$", ["1"], ["a"]),
        (r"^[^\p{L}]$", ["1"], ["a"]),
        (r"^\p{Any}\z", ["x"], ["", "xy"]),
        (r"\Aab\z", ["ab"], ["ab\n", "cab"]),
        ("a(?i)b", ["ab", "aB"], ["Ab"]),
        ("(?:a(?i)b)c", ["aBc"], ["aBC", "Abc"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        ("(?i)[a-c]{2}", ["Ab"], ["Ad"]),
        ("(?i-s:a.b)", ["AxB"], ["a\nb"]),
        ("(?s).", ["\n"], [""]),
        ("(?m)^b$", ["a\nb\nc", "b"], ["ab"]),
        ("^b(?m:$)", ["b\nc"], ["a\nb"]),
        ("(?P<year>[0-9]{4})-(?<month>[0-9]{2})", ["2026-10"], ["20-10"]),
        (r"^\Qa.b*\Ec$", ["a.b*c"], ["axbc"]),
        (r"^\x41\x{1F600}\101$", ["A\U0001f600A"], ["A"]),
        (r"^[\x{4e00}-\x{9fff}]+$", ["日本"], ["a"]),
        ("^[[:^alpha:]]$", ["1"], ["a"]),
        ("^[[:alpha:][:digit:]-]+$", ["a-1"], ["_"]),
        ("^[]a]+$", ["]a"], ["b"]),
        ("^[a-]+$", ["a-"], ["b"]),
        (r"^[\d\-z]+$", ["1-z"], ["y"]),
        ("^a{,2}$", ["a{,2}"], ["a", "aa"]),
        ("^a{$", ["a{"], ["a"]),
        ("^a{2,}$", ["aaa"], ["a"]),
        (r"^\s$", [" ", "\t"], ["\v", "x"]),
        (r"^\/\_\-$", ["/_-"], ["a"]),
        ("^(?:)$", [""], ["a"]),
    ],
)
def test_syntax_of_go_is_understood(pattern: str, matching: list[str], other: list[str]) -> None:
    matches = go_matcher(pattern)
    assert matches is not None, pattern_error(pattern)
    reset_match_steps()
    assert [text for text in matching if not matches(text)] == []
    assert [text for text in other if matches(text)] == []


def test_searches_for_one_object_share_a_limit_of_steps() -> None:
    matches = go_matcher("(a|b)*a(a|b){18}$")
    assert matches is not None
    text = "".join(random.Random(1).choices("ab", k=200_000))
    reset_match_steps()
    with pytest.raises(StepLimitExceeded):
        matches(text + "c")
    with pytest.raises(StepLimitExceeded):
        matches(text[:1000] + "d")
    reset_match_steps()
    assert not matches(text[:1000] + "d")


@given(st.text(alphabet="ab()[]{}|*+?^$.\\pPLdwzAQE-:1,i", max_size=25))
def test_any_pattern_is_compiled_or_refused(pattern: str) -> None:
    assert (go_matcher(pattern) is None) == bool(pattern_error(pattern))


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
