"""`trimtab interpret`: run the scripts of a ResourceInterpreterCustomization on an object, without a cluster."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import yaml

from trimtab.errors import InputFault

if TYPE_CHECKING:
    from trimtab.interpret.interpreter import Interpreter
    from trimtab.interpret.operations import Operation

_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
_KIND = "ResourceInterpreterCustomization"


class Given(NamedTuple):
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
@click.option("--statuses", type=_FILE, help="File with a list of {clusterName, status, ...} for AggregateStatus.")
def command(
    *,
    files: Sequence[Path],
    observed: Path | None,
    desired: Path | None,
    operations: Sequence[str],
    replicas: int | None,
    statuses: Path | None,
) -> None:
    """Run interpreter scripts, and the built-in rules for the other operations, on an object.

    Without an object only the syntax of the scripts is checked.
    """
    customizations = [customization for file in files for customization in _customizations(file)]
    inputs = Given(_object(desired), _object(observed), replicas, _statuses(statuses))
    selected = _operations(operations)
    if inputs.desired is None and inputs.observed is None:
        good = _check_syntax(customizations)
    else:
        good = _ask(customizations, inputs, selected)
    if not good:
        sys.exit(1)


def _documents(file: Path) -> list[Any]:
    try:
        with click.open_file(str(file)) as stream:
            return [document for document in yaml.load_all(stream, Loader=yaml.CSafeLoader) if document is not None]
    except (yaml.YAMLError, UnicodeDecodeError) as bad:
        raise InputFault(f"{file} is not YAML: {bad}") from bad


def _customizations(file: Path) -> Iterator[dict[str, Any]]:
    found = _documents(file)
    if not found:
        raise InputFault(f"{file} is empty; expected a {_KIND}")
    for document in found:
        kind = document.get("kind") if isinstance(document, dict) else None
        if kind != _KIND:
            raise InputFault(f"{file} contains a {kind or type(document).__name__}; -f accepts only {_KIND}s")
        target = (document.get("spec") or {}).get("target") or {}
        if not target.get("apiVersion") or not target.get("kind"):
            raise InputFault(f"{file}: spec.target.apiVersion and spec.target.kind are required")
        yield document


def _object(file: Path | None) -> dict[str, Any] | None:
    if file is None:
        return None
    found = _documents(file)
    if len(found) != 1 or not isinstance(found[0], dict):
        raise InputFault(f"{file} contains {len(found)} documents; expected exactly one object")
    if not found[0].get("apiVersion") or not found[0].get("kind"):
        raise InputFault(f"{file}: apiVersion and kind are required")
    return found[0]


def _statuses(file: Path | None) -> list[dict[str, Any]] | None:
    if file is None:
        return None
    found = _documents(file)
    items = found[0] if len(found) == 1 and isinstance(found[0], list) else found
    if not all(isinstance(item, dict) and item.get("clusterName") for item in items):
        raise InputFault(f"{file}: clusterName is required in every status")
    return items


def _operations(names: Sequence[str]) -> "list[Operation]":
    from trimtab.interpret.operations import Operation  # noqa: PLC0415 - keeps `trimtab --help` fast

    known = {operation.value.lower(): operation for operation in Operation}
    for name in names:
        if name.lower() not in known:
            raise InputFault(f"there is no operation {name!r}; operations: {', '.join(Operation)}")
    return [known[name.lower()] for name in names]


def _check_syntax(customizations: Sequence[dict[str, Any]]) -> bool:
    from trimtab.interpret.lua.sandbox import check_syntax  # noqa: PLC0415
    from trimtab.interpret.lua.scripts import scripts_of  # noqa: PLC0415

    if not customizations:
        raise InputFault("nothing to do: give scripts with -f, or an object with --observed or --desired")
    good = True
    for customization in customizations:
        for operation, script in scripts_of(customization).items():
            fault = check_syntax(script.text)
            good = good and fault is None
            result = "the syntax is valid" if fault is None else f"{fault.reason}: {fault.message}"
            click.echo(f"{script.customization} {operation}: {result}", err=fault is not None)
    return good


def _ask(customizations: Sequence[dict[str, Any]], given: Given, asked: "list[Operation]") -> bool:
    from trimtab.interpret.interpreter import Interpreter  # noqa: PLC0415
    from trimtab.runtime.lua_worker import LuaWorker  # noqa: PLC0415

    _check_targets(customizations, given)
    worker = LuaWorker()

    def executor(script: str, hook: str, arguments: Sequence[Any], limits: Any) -> Any:
        outcome = worker(script, hook, arguments, limits)
        for line in getattr(outcome, "printed", ()):
            click.echo(f"{hook} printed: {line}", err=True)
        return outcome

    try:
        return _answer_all(Interpreter.of(customizations, executor), given, asked)
    finally:
        worker.close()


def _check_targets(customizations: Sequence[dict[str, Any]], given: Given) -> None:
    targets = {(c["spec"]["target"]["apiVersion"], c["spec"]["target"]["kind"]) for c in customizations}
    for obj in (given.desired, given.observed):
        if targets and obj is not None and (obj["apiVersion"], obj["kind"]) not in targets:
            wanted = " and ".join(sorted(f"{version} {kind}" for version, kind in targets))
            raise InputFault(f"the scripts are for {wanted}, but the object is a {obj['apiVersion']} {obj['kind']}")


def _answer_all(interpreter: "Interpreter", given: Given, asked: "list[Operation]") -> bool:
    from trimtab.interpret.operations import InterpreterError, Operation  # noqa: PLC0415

    good = True
    for operation in asked or Operation:
        question = _questions(interpreter, given).get(operation)
        obj = given.desired or given.observed or {}
        if not asked and (question is None or not interpreter.interprets((obj["apiVersion"], obj["kind"]), operation)):
            continue
        if question is None:
            raise InputFault(f"{operation} requires {_NEEDS[operation]}")
        try:
            _show(operation, question())
        except InterpreterError as failed:
            good = False
            click.echo(f"{operation}: {failed.failure.reason} ({failed.source}): {failed.failure.message}", err=True)
    return good


_NEEDS = {
    "Retain": "both --desired and --observed",
    "ReviseReplica": "--replicas",
    "AggregateStatus": "--statuses",
}


def _questions(interpreter: "Interpreter", given: Given) -> "dict[Operation, Callable[[], Any]]":
    """The operations that can run with the given input."""
    from trimtab.interpret.operations import Operation  # noqa: PLC0415

    desired, observed = given.desired or given.observed or {}, given.observed or given.desired or {}
    found: dict[Operation, Callable[[], Any]] = {
        Operation.REPLICA: lambda: _replicas(interpreter, desired),
        Operation.COMPONENT: lambda: interpreter.components(desired),
        Operation.STATUS: lambda: interpreter.reflect(observed),
        Operation.HEALTH: lambda: interpreter.health(observed),
        Operation.DEPENDENCY: lambda: interpreter.dependencies(desired),
    }
    if given.desired is not None and given.observed is not None:
        found[Operation.RETAIN] = lambda: interpreter.retain(desired, observed)
    if (replicas := given.replicas) is not None:
        found[Operation.REVISE_REPLICA] = lambda: interpreter.revise(desired, replicas)
    if (statuses := given.statuses) is not None:
        found[Operation.AGGREGATE_STATUS] = lambda: interpreter.aggregate(desired, statuses)
    return found


def _replicas(interpreter: "Interpreter", obj: dict[str, Any]) -> dict[str, Any]:
    replicas, requirements = interpreter.replicas(obj)
    return {"replicas": replicas} | ({"replicaRequirements": requirements} if requirements else {})


def _show(operation: str, answer: Any) -> None:
    if isinstance(answer, dict | list):
        written = yaml.safe_dump(answer, sort_keys=False, default_flow_style=False)
        indented = "".join(f"  {line}\n" for line in written.splitlines())
        click.echo(f"{operation}:\n{indented}", nl=False)
    else:
        click.echo(f"{operation}: {'nothing' if answer is None else answer}")
