"""The core is pure, no exception is swallowed but in two places, and keys of the store are built in one module."""

import ast
from pathlib import Path

import pytest

CORE_PACKAGES = ["api", "decide", "interpret", "plugins", "controllers"]
FORBIDDEN = {"asyncio", "time", "random", "os", "socket", "subprocess", "threading", "sqlite3", "logging"}
SRC = Path(__file__).parents[1] / "src" / "trimtab"
MODULES = [path for package in CORE_PACKAGES for path in sorted((SRC / package).rglob("*.py"))]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SRC)))
def test_the_core_is_pure(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await)
        assert not FORBIDDEN & {name.split(".")[0] for name in imported_modules(node)}
        if isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}:
            assert not is_datetime(node.value), f"{path}:{node.lineno} reads a clock"


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_every_module_has_a_docstring(path: Path) -> None:
    assert path.name == "__init__.py" or ast.get_docstring(ast.parse(path.read_text()))


def test_keys_of_the_store_are_built_in_one_module() -> None:
    literals = {
        str(path.relative_to(SRC))
        for path in SRC.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("/registry")
    }
    assert literals == {"store/keys.py"}


SWALLOW_EVERYTHING = ["server/http/asgi.py", "tasks.py"]
"""A request that fails has a response; a task or callback that fails is logged and goes on."""
PASS_ON_EVERYTHING = ["store/store.py", "store/writer_thread.py"]
"""The exception is handed to the caller who waits in another task or thread."""


def test_any_exception_is_swallowed_in_two_places_only() -> None:
    found = {str(path.relative_to(SRC)): swallowing_places(path) for path in SRC.rglob("*.py")}
    places = sorted(name for name, count in found.items() for _ in range(count))
    assert places == sorted(SWALLOW_EVERYTHING + PASS_ON_EVERYTHING)


def swallowing_places(path: Path) -> int:
    """How many handlers and contexts of a module catch any exception and do not raise again."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    handlers = [node for node in nodes if isinstance(node, ast.ExceptHandler) and catches_everything(node.type)]
    swallowing = [node for node in handlers if not any(isinstance(inner, ast.Raise) for inner in ast.walk(node))]
    suppressing = [node for node in nodes if isinstance(node, ast.Call) and suppresses_everything(node)]
    contexts = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == "__exit__"]
    returning = [node for node in contexts if any(is_return_of_true(inner) for inner in ast.walk(node))]
    return len(swallowing) + len(suppressing) + len(returning)


def catches_everything(caught: ast.expr | None) -> bool:
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(name is None or (isinstance(name, ast.Name) and name.id in EVERYTHING) for name in names)


EVERYTHING = {"Exception", "BaseException"}


def suppresses_everything(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name == "suppress" and any(isinstance(arg, ast.Name) and arg.id in EVERYTHING for arg in call.args)


def is_return_of_true(node: ast.AST) -> bool:
    return isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and node.value.value is True


def imported_modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def is_datetime(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in {"datetime", "date"}
