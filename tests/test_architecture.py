"""The core is pure, seams are typed, two places swallow exceptions, and keys of the store are built in one module."""

import ast
import re
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
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(KEY_ROOTS)
    }
    assert literals == {"store/keys.py"}


KEY_ROOTS = ("/registry", "/trimtab")


def test_stored_json_is_decoded_and_not_searched_for_text() -> None:
    """Only the conversion of older formats looks at bytes: it rewrites them."""
    searching = {
        str(path.relative_to(SRC))
        for package in ("server", "store")
        for path in (SRC / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn) and searches_value(node)
    }
    assert searching <= {"server/storage/field_renames.py"}


def searches_value(node: ast.Compare) -> bool:
    """Whether a word or a quoted word is looked for in bytes."""
    searched = node.left.value if isinstance(node.left, ast.Constant) else None
    return isinstance(searched, bytes) and re.search(rb'["A-Za-z]', searched) is not None


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_seams_are_typed(path: Path) -> None:
    """What an object can do is in its type, and its hooks are arguments of its constructor or added by a method."""
    tree = ast.parse(path.read_text())
    methods = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.Name) and node.id == "hasattr"), f"{path}:{node.lineno} asks for an attribute"
        for target, value in assignments(node):
            if isinstance(target, ast.Attribute) and not is_name_of(target.value, "self"):
                assert not is_hook(value, methods, functions), f"{path}:{target.lineno} patches {ast.unparse(target)}"


OPTIONAL_ATTRIBUTES = {
    "api/yaml_documents.py": "the C loader, which is not part of every build of PyYAML",
    "cli/commands/score.py": "the function of a file of a user",
    "store/faults.py": "the code of SQLite, which errors of the Python module do not have",
}


def test_an_attribute_that_may_be_missing_is_read_only_of_code_of_others() -> None:
    guessing = {
        str(path.relative_to(SRC))
        for path in SRC.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and is_name_of(node.func, "getattr") and len(node.args) > 2
    }
    assert guessing == OPTIONAL_ATTRIBUTES.keys()


ANY_ATTRIBUTE = {
    "cli/support/terminal_output.py": "stands for a stream of Python, with whatever else that has",
    "runtime/cache.py": "decodes `raw` or `typed` on first access",
}


def test_objects_with_any_attribute_are_listed() -> None:
    found = {
        str(path.relative_to(SRC))
        for path in SRC.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name in ("__getattr__", "__getattribute__", "__setattr__")
    }
    assert found == ANY_ATTRIBUTE.keys()


def assignments(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    if not isinstance(node, ast.Assign):
        return []
    pairs = []
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs += list(zip(target.elts, node.value.elts, strict=False))
        else:
            pairs.append((target, node.value))
    return pairs


def is_hook(value: ast.expr, methods: set[str], functions: set[str]) -> bool:
    """Whether the value is a function: a lambda, or a method or function of this module."""
    if isinstance(value, ast.Attribute):
        return is_name_of(value.value, "self") and value.attr in methods
    return isinstance(value, ast.Lambda) or (isinstance(value, ast.Name) and value.id in functions)


def is_name_of(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


SWALLOW_EVERYTHING = ["server/http/asgi.py", "tasks.py"]
"""A request that fails has a response; a task or callback that fails is logged and goes on."""
PASS_ON_EVERYTHING = ["store/group_commit.py", "store/writer_thread.py"]
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
    awaited = [node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Await)]
    ignoring = [node for node in awaited if isinstance(node.value, ast.Call) and returns_exceptions(node.value)]
    return len(swallowing) + len(suppressing) + len(returning) + len(ignoring)


def returns_exceptions(call: ast.Call) -> bool:
    return any(keyword.arg == "return_exceptions" for keyword in call.keywords)


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
