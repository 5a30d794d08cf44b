"""`trimtab interpret`: run the scripts of a ResourceInterpreterCustomization on an object, without a cluster."""

import sys
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import yaml

from trimtab.api.yaml_documents import FILE, YamlError, load_yaml_documents
from trimtab.errors import InputError

if TYPE_CHECKING:
    from trimtab.interpret.interpreter import Interpreter
    from trimtab.interpret.operations import InterpreterFailure, Operation

_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
_KIND = "ResourceInterpreterCustomization"


class InterpretInput(NamedTuple):
    """The objects and values to interpret."""

    desired: dict[str, Any] | None
    observed: dict[str, Any] | None
    replicas: int | None
    statuses: list[dict[str, Any]] | None


@click.command()
@click.option(
    "-f", "--filename", "files", type=_FILE, multiple=True, help=f"File with {_KIND}s; `-` is standard input."
)
@click.option("--observed", type=_FILE, help="File with the object as it is in a member cluster.")
@click.option(
    "--desired", type=_FILE, help="File with the object as it is in the control plane. Default: the observed object."
)
@click.option(
    "--operation",
    "operations",
    multiple=True,
    help="Operation to run, e.g. InterpretHealth. Default: all operations that apply.",
)
@click.option("--replicas", type=click.IntRange(min=0), help="Replicas for ReviseReplica.")
@click.option(
    "--show", metavar="KIND", help="Print the shipped rules for a kind, such as argoproj.io/v1alpha1/Rollout."
)
@click.option("--statuses", type=_FILE, help="File with a list of {clusterName, status, ...} for AggregateStatus.")
def command(
    *,
    files: Sequence[Path],
    observed: Path | None,
    desired: Path | None,
    operations: Sequence[str],
    replicas: int | None,
    show: str | None,
    statuses: Path | None,
) -> None:
    """Run interpreter scripts, and the built-in rules for the other operations, on an object.

    Without an object only the syntax of the scripts is checked.
    """
    if show is not None:
        click.echo(_shipped_rules(show), nl=False)
        return
    customizations = [customization for file in files for customization in _read_customizations(file)]
    inputs = InterpretInput(_read_object(desired), _read_object(observed), replicas, _read_statuses(statuses))
    selected = _parse_operations(operations)
    if inputs.desired is None and inputs.observed is None:
        good = _check_syntax(customizations)
    else:
        good = _run_operations(customizations, inputs, selected)
    if not good:
        sys.exit(1)


def _shipped_rules(kind: str) -> str:
    """The shipped customization for a kind, which is named with or without its apiVersion, as YAML."""
    from trimtab.interpret.thirdparty.customizations import shipped_customizations  # noqa: PLC0415

    found = {}
    for one in shipped_customizations():
        target = one["spec"]["target"]
        found[f"{target['apiVersion']}/{target['kind']}"] = one
    names = [name for name in found if kind.lower() in (name.lower(), name.rpartition("/")[2].lower())]
    if len(names) != 1:
        near = names or get_close_matches(kind, found, 3, 0.4) or sorted(found)
        raise InputError(f"--show {kind}: choose one of {', '.join(near)}")
    return yaml.dump(found[names[0]], Dumper=_ScriptDumper, sort_keys=False)


class _ScriptDumper(yaml.SafeDumper):
    """Writes scripts as they are, line by line."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_ScriptDumper.add_representer(str, _represent_text)


def _read_documents(file: Path) -> list[Any]:
    try:
        with click.open_file(str(file)) as stream:
            return [document for document in load_yaml_documents(stream.read(), FILE) if document is not None]
    except (YamlError, UnicodeDecodeError) as bad:
        raise InputError(f"{file} is not YAML: {bad}") from bad


def _read_customizations(file: Path) -> Iterator[dict[str, Any]]:
    found = _read_documents(file)
    if not found:
        raise InputError(f"{file} is empty; expected a {_KIND}")
    for document in found:
        kind = document.get("kind") if isinstance(document, dict) else None
        if kind != _KIND:
            raise InputError(f"{file} contains a {kind or type(document).__name__}; -f accepts only {_KIND}s")
        target = (document.get("spec") or {}).get("target") or {}
        if not target.get("apiVersion") or not target.get("kind"):
            raise InputError(f"{file}: spec.target.apiVersion and spec.target.kind are required")
        yield document


def _read_object(file: Path | None) -> dict[str, Any] | None:
    if file is None:
        return None
    found = _read_documents(file)
    if len(found) != 1 or not isinstance(found[0], dict):
        raise InputError(f"{file} contains {len(found)} documents; expected exactly one object")
    if not found[0].get("apiVersion") or not found[0].get("kind"):
        raise InputError(f"{file}: apiVersion and kind are required")
    return found[0]


def _read_statuses(file: Path | None) -> list[dict[str, Any]] | None:
    if file is None:
        return None
    found = _read_documents(file)
    items = found[0] if len(found) == 1 and isinstance(found[0], list) else found
    if not all(isinstance(item, dict) and item.get("clusterName") for item in items):
        raise InputError(f"{file}: clusterName is required in every status")
    return items


def _parse_operations(names: Sequence[str]) -> "list[Operation]":
    from trimtab.interpret.operations import Operation  # noqa: PLC0415 - keeps `trimtab --help` fast

    known = {operation.value.lower(): operation for operation in Operation}
    for name in names:
        if name.lower() not in known:
            raise InputError(f"there is no operation {name!r}; operations: {', '.join(Operation)}")
    return [known[name.lower()] for name in names]


def _check_syntax(customizations: Sequence[dict[str, Any]]) -> bool:
    from trimtab.interpret.lua.sandbox import check_syntax  # noqa: PLC0415
    from trimtab.interpret.lua.scripts import scripts_of  # noqa: PLC0415

    if not customizations:
        raise InputError("nothing to do: give scripts with -f, or an object with --observed or --desired")
    good = True
    for customization in customizations:
        for operation, script in scripts_of(customization).items():
            fault = check_syntax(script.text)
            good = good and fault is None
            result = "the syntax is valid" if fault is None else f"{fault.reason}: {fault.message}"
            click.echo(f"{script.customization} {operation}: {result}", err=fault is not None)
    return good


def _run_operations(
    customizations: Sequence[dict[str, Any]], inputs: InterpretInput, selected: "list[Operation]"
) -> bool:
    from trimtab.interpret.interpreter import Interpreter  # noqa: PLC0415
    from trimtab.interpret.lua.sandbox import LIMITS, LuaLimits, ScriptResult  # noqa: PLC0415
    from trimtab.runtime.lua_worker import LuaWorker  # noqa: PLC0415

    _check_targets(customizations, inputs)
    worker = LuaWorker()

    def executor(
        script: str, hook: str, arguments: Sequence[Any], limits: LuaLimits = LIMITS
    ) -> "ScriptResult | InterpreterFailure":
        outcome = worker(script, hook, arguments, limits)
        if isinstance(outcome, ScriptResult):
            for line in outcome.printed:
                click.echo(f"{hook} printed: {line}", err=True)
        return outcome

    try:
        return _print_results(Interpreter.of(customizations, executor), inputs, selected)
    finally:
        worker.close()


def _check_targets(customizations: Sequence[dict[str, Any]], inputs: InterpretInput) -> None:
    targets = {(c["spec"]["target"]["apiVersion"], c["spec"]["target"]["kind"]) for c in customizations}
    for obj in (inputs.desired, inputs.observed):
        if targets and obj is not None and (obj["apiVersion"], obj["kind"]) not in targets:
            wanted = " and ".join(sorted(f"{version} {kind}" for version, kind in targets))
            raise InputError(f"the scripts are for {wanted}, but the object is a {obj['apiVersion']} {obj['kind']}")


def _print_results(interpreter: "Interpreter", inputs: InterpretInput, selected: "list[Operation]") -> bool:
    from trimtab.interpret.operations import InterpreterError, Operation  # noqa: PLC0415

    good = True
    for operation in selected or Operation:
        question = _available_calls(interpreter, inputs).get(operation)
        obj = inputs.desired or inputs.observed or {}
        if not selected and (
            question is None or not interpreter.interprets((obj["apiVersion"], obj["kind"]), operation)
        ):
            continue
        if question is None:
            raise InputError(f"{operation} requires {_REQUIRED_OPTIONS[operation]}")
        try:
            _print_result(operation, question())
        except InterpreterError as failed:
            good = False
            click.echo(f"{operation}: {failed.failure.reason} ({failed.source}): {failed.failure.message}", err=True)
    return good


_REQUIRED_OPTIONS = {
    "Retain": "both --desired and --observed",
    "ReviseReplica": "--replicas",
    "AggregateStatus": "--statuses",
}


def _available_calls(interpreter: "Interpreter", inputs: InterpretInput) -> "dict[Operation, Callable[[], Any]]":
    """The operations that can run with the given input."""
    from trimtab.interpret.operations import Operation  # noqa: PLC0415

    desired, observed = inputs.desired or inputs.observed or {}, inputs.observed or inputs.desired or {}
    found: dict[Operation, Callable[[], Any]] = {
        Operation.REPLICA: lambda: _replicas_result(interpreter, desired),
        Operation.COMPONENT: lambda: interpreter.components(desired),
        Operation.STATUS: lambda: interpreter.reflect(observed),
        Operation.HEALTH: lambda: interpreter.health(observed),
        Operation.DEPENDENCY: lambda: interpreter.dependencies(desired),
    }
    if inputs.desired is not None and inputs.observed is not None:
        found[Operation.RETAIN] = lambda: interpreter.retain(desired, observed)
    if (replicas := inputs.replicas) is not None:
        found[Operation.REVISE_REPLICA] = lambda: interpreter.revise(desired, replicas)
    if (statuses := inputs.statuses) is not None:
        found[Operation.AGGREGATE_STATUS] = lambda: interpreter.aggregate(desired, statuses)
    return found


def _replicas_result(interpreter: "Interpreter", obj: dict[str, Any]) -> dict[str, Any]:
    replicas, requirements = interpreter.replicas(obj)
    return {"replicas": replicas} | ({"replicaRequirements": requirements} if requirements else {})


def _print_result(operation: str, result: Any) -> None:
    if isinstance(result, dict | list):
        written = yaml.safe_dump(result, sort_keys=False, default_flow_style=False)
        indented = "".join(f"  {line}\n" for line in written.splitlines())
        click.echo(f"{operation}:\n{indented}", nl=False)
    else:
        click.echo(f"{operation}: {'nothing' if result is None else result}")
