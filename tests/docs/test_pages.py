"""Every page does what it says: its sessions run against a real fleet, and its other commands exist with their options."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from docs.command_server import running_server
from docs.markdown_blocks import blocks_of, steps_of
from docs.page_session import ROOT, PageSession
from trimtab.cli.main import trimtab

PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").rglob("*.md"))]
SESSIONS = [page for page in PAGES if any(b.language == "console" and not b.skipped for b in blocks_of(page))]
INLINE = re.compile(r"`(trimtab [a-z][^`]*)`")
PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9]*\Z|\.\.\.|F\Z")


def identifier(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="session")
def commands() -> Iterator[Path]:
    with running_server() as path:
        yield path


@pytest.mark.parametrize("page", SESSIONS, ids=identifier)
def test_sessions_print_what_the_page_says(page: Path, tmp_path: Path, commands: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    PageSession(page, tmp_path, commands).run()


@pytest.mark.parametrize("page", PAGES, ids=identifier)
def test_commands_of_the_page_exist_with_their_options(page: Path) -> None:
    for line, command in commands_of(page):
        check_command(command, f"{identifier(page)}:{line}")


@pytest.mark.parametrize("page", PAGES, ids=identifier)
def test_every_session_is_run_or_says_why_not(page: Path) -> None:
    """A block that shows a prompt must be a console block, because only those are run."""
    for block in blocks_of(page):
        if re.search(r"^\$ ", block.body, re.MULTILINE):
            assert block.language == "console", f"{identifier(page)}:{block.line}: a session must begin with ```console"


def commands_of(page: Path) -> Iterator[tuple[int, str]]:
    """All trimtab commands of the page: in sessions, in lists of commands, and in the text."""
    for block in blocks_of(page):
        if block.language == "console":
            for step in steps_of(block):
                yield step.line, step.command
        elif block.language in ("", "sh", "bash"):
            for number, text in enumerate(block.body.splitlines(), block.line + 1):
                if text.startswith("trimtab ") and not text.startswith("trimtab is "):
                    yield number, text.partition(" #")[0]
    if page.parent.name != "reference":
        for number, text in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            for found in INLINE.findall(text):
                yield number, found.replace("\\|", "|")


def check_command(command: str, place: str) -> None:
    """Fail unless the command and its options exist; placeholders and what follows a pipe are not looked at."""
    simple = re.split(r"\s[|>&;]|-->", command.replace("\\\n", " "), maxsplit=1)[0]
    try:
        words = shlex.split(simple)
    except ValueError:
        return
    if "maintenance" in words[1:2]:  # the tutorial builds this command
        return
    if not words or words[0] != "trimtab" or len(words) < 2 or PLACEHOLDER.match(words[1]):
        return
    found: click.Command | None = trimtab
    context = click.Context(trimtab)
    rest = words[1:]
    while isinstance(found, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        found = found.get_command(context, name)
        assert found is not None, f"{place}: there is no command {name!r}: {command}"
    assert found is not None
    known = {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for word in rest:
        option = word.split("=", 1)[0]
        if re.fullmatch(r"--[a-z-]+|-[a-zA-Z]", option) and option not in ("--help", "-h"):
            assert option in known, f"{place}: {found.name} has no option {option}: {command}"
