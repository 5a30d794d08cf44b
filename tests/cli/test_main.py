"""The command line: commands are found by name, and errors are printed in one line."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from trimtab import __version__
from trimtab.cli.main import GC_THRESHOLDS, main, trimtab


def exit_code(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["trimtab", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_every_command_has_help() -> None:
    commands = trimtab.list_commands(None)  # type: ignore[arg-type]
    assert {"up", "fleet", "join", "unjoin", "crds", "version"} <= set(commands)
    assert not [name for name in commands if name.startswith(("shared", "main"))]
    for name in commands:
        result = CliRunner().invoke(trimtab, [name, "--help"])
        assert result.exit_code == 0, (name, result.exception)
        assert result.output.startswith(f"Usage: trimtab {name}")


READING = {
    "approve",
    "decide",
    "doctor",
    "explain",
    "fleet",
    "history",
    "observe",
    "plan",
    "reschedule",
    "score providers",
}
"""Commands that print what they find."""
OTHERS = {
    *("adopt", "apply-plan", "backup", "cordon-cluster", "delete pod", "drain", "drain-cluster", "fault cluster"),
    *("fault node", "fault score", "fault workload", "freeze", "install", "join", "join-command", "migrate-storage"),
    *(
        "purge",
        "rebalance",
        "release",
        "restore",
        "revoke-certificate",
        "rotate-token-key",
        "snapshot",
    ),
    *("store check", "taint", "thaw", "unblock", "uncordon-cluster", "unjoin"),
    *("agent", "apiserver", "console", "controllers", "demo", "play", "rescheduler", "score run", "up", "webhook"),
    *("completion", "crds", "interpret", "version"),
}
"""Commands that write, serve or run something, and those whose output has one form: scripts, definitions, a version."""


def leaf_commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaf_commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def output_formats(command: click.Command) -> tuple[str, ...]:
    types = [param.type for param in command.params if param.name == "output"]
    return tuple(types[0].choices) if types and isinstance(types[0], click.Choice) else ()


def test_every_command_that_reads_has_all_output_formats() -> None:
    formats = {name: output_formats(command) for name, command in leaf_commands(trimtab)}
    assert set(formats) == READING | OTHERS, "a new command belongs to one of the two"
    assert {name for name, choices in formats.items() if choices} == READING | {"version"}
    assert formats["version"] == ("table", "json", "yaml"), (
        "it reads no objects, so there are no names and no wide columns"
    )
    assert {formats[name] for name in READING} == {("table", "wide", "name", "json", "yaml")}


def test_error_is_one_line_and_exit_code_1(monkeypatch, capsys, tmp_path) -> None:
    assert exit_code(monkeypatch, "fleet", "--kubeconfig", str(tmp_path / "gone")) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"trimtab: no kubeconfig: {tmp_path / 'gone'} does not exist; name one with --kubeconfig")
    assert error.count("\n") == 1


def test_unknown_command_is_a_usage_error(monkeypatch, capsys) -> None:
    assert exit_code(monkeypatch, "nonsense") == 2
    assert "there is no command 'nonsense'" in capsys.readouterr().err


def test_version_command_and_option_print_the_version(monkeypatch, capsys) -> None:
    assert exit_code(monkeypatch, "--version") == 0
    assert exit_code(monkeypatch, "version") == 0
    assert capsys.readouterr().out.count(__version__) == 2


def test_garbage_collection_is_rare_in_commands(monkeypatch, capsys) -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)
        assert exit_code(monkeypatch, "version") == 0
        assert gc.get_threshold() == GC_THRESHOLDS
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize(
    "modules",
    ["trimtab.cli.commands.plan", "trimtab.cli.commands.explain, trimtab.cli.support.server_state"],
    ids=["plan", "explain"],
)
def test_reading_commands_import_neither_a_server_nor_a_second_http_client(modules: str) -> None:
    """Their imports are most of the CPU time that a person waits for."""
    assert imported_by(f"import {modules}", "aiohttp", "trimtab.server", "yarl", "cel_expr_python") == "[]\n"


def test_version_imports_neither_an_event_loop_nor_logging() -> None:
    call = "from trimtab.cli.main import trimtab; trimtab.main(['version'], standalone_mode=False)"
    assert imported_by(call, "asyncio", "logging", "msgspec", "numpy").splitlines()[1:] == ["[]"]


def test_a_remembered_decision_is_explained_without_arrays() -> None:
    assert imported_by("import trimtab.cli.commands.explain", "numpy", "trimtab.controllers") == "[]\n"


def test_plans_load_the_plugins_for_clusters_alone() -> None:
    call = "from trimtab import plugins; plugins.load_for_clusters()"
    packages = ("trimtab.plugins.movers", "trimtab.plugins.node_scores", "trimtab.plugins.filters.taint_toleration")
    assert imported_by(call, *packages) == "['trimtab.plugins.filters.taint_toleration']\n"


def imported_by(code: str, *prefixes: str) -> str:
    """What the code prints in a new process, and then the modules with these prefixes that it has imported."""
    listing = f"import sys; print([m for m in sys.modules if m.startswith({prefixes!r})])"
    command = [sys.executable, "-c", f"{code}; {listing}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_reader_that_ends_early_is_no_error() -> None:
    shown = "import sys; from trimtab.cli.main import main; sys.argv = ['trimtab', 'crds', '--group', 'trimtab.dev']; main()"
    with subprocess.Popen([sys.executable, "-c", shown], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
