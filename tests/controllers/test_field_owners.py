"""Each condition type, annotation, label and finalizer of a kind has one owner; commits enforce what is declared."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import trimtab
from trimtab.api.kind import kind_of
from trimtab.controllers import well_known
from trimtab.controllers.contract import Controller, controllers
from trimtab.controllers.pods.registry import member_controllers
from trimtab.registry import Registry
from trimtab.runtime.declarations import load_declarations

SRC = Path(trimtab.__file__).parent
KEYED = ("status.conditions", "metadata.annotations", "metadata.labels", "metadata.finalizers")
"""The fields whose items have an owner each."""
SHARED = {
    "status.conditions[Stalled]": "movement: binding_moves.with_stalled_condition is the only builder",
    f"metadata.annotations[{well_known.REQUESTED_BY}]": "movement: state.request is the only builder",
    f"metadata.finalizers[{well_known.CLUSTER_FINALIZER}]": "clusters: health.unjoin removes it, once the cluster is empty",
    f"metadata.finalizers[{well_known.WORK_FINALIZER}]": "finalizers.without_finalizers; health removes it without an agent",
}
"""Items that several controllers write through one function, with that function."""


ADMISSION = "webhook_defaults"
"""Does once, at first sight of an object, what an admission webhook does where one is installed."""


def registries() -> list[Registry[Controller]]:
    load_declarations()
    return [controllers, member_controllers]


def declarations(registry: Registry[Controller]) -> Iterator[tuple[str, str, str]]:
    """Kind, declared path and controller of everything that the controllers of a registry declare."""
    for entry in registry.values():
        for path in entry.writes if entry.name != ADMISSION else ():
            if path[:1].isupper():
                kind, _, field = path.partition(".")
                yield kind, field, entry.name
            else:
                for subject in entry.subjects:
                    yield kind_of(subject).name, path, entry.name


def owners(registry: Registry[Controller]) -> dict[tuple[str, str], list[str]]:
    """The matrix: the controllers that declare each item of a keyed field."""
    matrix: dict[tuple[str, str], list[str]] = {}
    for kind, path, name in declarations(registry):
        if path.startswith(KEYED):
            matrix.setdefault((kind, path), []).append(name)
    return matrix


def format_matrix(matrix: dict[tuple[str, str], list[str]]) -> str:
    return "\n".join(f"{kind:26} {path:72} {', '.join(names)}" for (kind, path), names in sorted(matrix.items()))


@pytest.mark.parametrize("registry", registries(), ids=["control plane", "pods"])
def test_no_item_has_a_second_owner(registry: Registry[Controller]) -> None:
    matrix = owners(registry)
    print(format_matrix(matrix))
    second = {item: names for item, names in matrix.items() if len(names) > 1 and item[1] not in SHARED}
    assert not second, f"a second owner:\n{format_matrix(second)}"


@pytest.mark.parametrize("registry", registries(), ids=["control plane", "pods"])
def test_a_field_that_several_controllers_write_is_declared_item_by_item(registry: Registry[Controller]) -> None:
    for field in KEYED:
        whole = {(kind, name) for kind, path, name in declarations(registry) if path == field}
        some = {(kind, name) for kind, path, name in declarations(registry) if path.startswith(field)}
        for kind, name in whole:
            others = {other for one, other in some | whole if one == kind and other != name}
            assert not others, f"{name} declares {field} of {kind} as a whole, and so do {others} in part"


def test_every_shared_item_is_written_by_several_controllers() -> None:
    matrix = owners(registries()[0])
    for path in SHARED:
        assert any(len(names) > 1 for (_, known), names in matrix.items() if known == path), path


def test_shared_items_of_a_binding_are_built_by_one_function() -> None:
    """The condition Stalled and the annotation of a request, which several controllers of movement write."""
    annotating, stalling = set(), set()
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Dict(keys=keys) if any(is_reference(key, "REQUESTED_BY") for key in keys):
                    annotating.add(str(path.relative_to(SRC)))
                case ast.Call(func=ast.Name("Condition"), keywords=keywords) if any(
                    keyword.arg == "type" and is_reference(keyword.value, "STALLED") for keyword in keywords
                ):
                    stalling.add(str(path.relative_to(SRC)))
    assert (annotating, stalling) == ({"controllers/movement/state.py"}, {"controllers/movement/binding_moves.py"})


def is_reference(node: ast.expr | None, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)


def test_declared_keys_are_well_formed() -> None:
    for registry in registries():
        for _, path, name in declarations(registry):
            assert re.fullmatch(r"[\w.]*(\[[\w./-]+\])?", path), f"{name}: {path}"
