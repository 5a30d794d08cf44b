"""How sessions in pages are read and compared."""

from pathlib import Path

import pytest

from docs.markdown_blocks import blocks_of, matches, normalised, steps_of

PAGE = """# Page
```yaml title="a.yaml"
kind: A
```
<!-- no-test: it needs a browser -->
```console
$ open it
```
```console
$ cat a.yaml
kind: A
$ one \\
  two
```
"""


def test_blocks_have_language_title_line_and_reason(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    file, skipped, session = blocks_of(page)
    assert (file.language, file.title, file.body) == ("yaml", "a.yaml", "kind: A\n")
    assert skipped.skipped == "it needs a browser"
    assert session.skipped == ""
    first, second = steps_of(session)
    assert (first.command, first.output, first.line) == ("cat a.yaml", ("kind: A",), 10)
    assert second.command == "one \\\n  two"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("web   6/6   3s", "web 6/6 1m20s"),
        ("started 2026-01-01 00:00:00Z", "started 2027-02-03 04:05:06Z"),
        ("web-gxbrdfhrv9-kt424", "web-abcdefghij-zzzzz"),
        ("at https://127.0.0.1:6443", "at https://127.0.0.1:40123"),
        ("done after 5 min 37 s.", "done after 6 s."),
        ("0.8 % -> 1.2 %", "0.4 % -> 0.9 %"),
    ],
)
def test_what_differs_between_runs_is_ignored(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"), [("member1 2", "member1 3"), ("True", "False"), ("web is ready", "web is not ready")]
)
def test_what_matters_is_compared(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)
    assert not matches((one,), [other])


def test_dots_stand_for_lines_and_for_text() -> None:
    assert matches(("a", "...", "z"), ["a", "b", "c", "z"])
    assert matches(("one ... three",), ["one two three"])
    assert not matches(("a", "...", "z"), ["a", "b"])
    assert matches((), ["anything"])
