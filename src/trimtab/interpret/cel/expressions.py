"""CEL expressions about a managed cluster or an object in one, with the libraries of Kubernetes and a cost limit.

The evaluator is the extra `cel`; `compiler()` is None where it is not installed. An evaluation cannot be interrupted,
so its cost is estimated before each call: the nesting depth of loops over the largest collection in the input.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from itertools import product
from typing import Any, TypeAlias

from trimtab.api.value import Raw
from trimtab.interpret.cel.formats import formats, with_optionals
from trimtab.interpret.cel.library import Overload, library
from trimtab.interpret.cel.strings import strings

try:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional
except ImportError:  # the extra is not installed
    cel = None

Scores: TypeAlias = Callable[[str], Mapping[str, int] | None]
Program: TypeAlias = Callable[[Raw, Scores], bool]
Compiler: TypeAlias = Callable[[tuple[str, ...]], Program | str]

OPAQUE = ("Quantity", "IP", "CIDR", "URL", "Semver", "Format")
"""Types that CEL does not have."""
_ANY = ("string", "int", "uint", "double", "bool", "null", "bytes", "timestamp", "duration", "list", "Map")
COST_LIMIT = 1_000_000
"""For one expression about one cluster, as upstream."""
COST_LIMIT_OF_SELECTOR = 10_000_000
_LONGEST = 16_384
_LOOP = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(")
_UNPACKS = re.compile(r"\.\s*(?:split|parseJSON)\s*\(")
_NOISE = re.compile(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$")


class Unmatched(Exception):
    """Raised inside an expression that reads a missing score: the cluster does not match."""


class Unanswered(Exception):
    """An expression has no value; the message is for its author."""


class Tongue:
    """Compiles expressions over some variables, after checking their types."""

    def __init__(self, overloads: list[Overload], variables: Mapping[str, str]) -> None:
        opaque = {name: cel.Type.AbstractType(f"kubernetes.{name}") for name in OPAQUE}
        overloads = [*library(), *strings(), *formats(), *overloads]
        # the evaluator has no values of opaque types: the first environment checks types, the second evaluates maps
        self._checker = _environment(overloads, opaque, variables)
        maps = dict.fromkeys(opaque, cel.Type.Map(cel.Type.STRING, cel.Type.DYN))
        self._runner = _environment(_spelled_out(overloads), maps, variables)

    def compile(self, text: str) -> Any:
        if len(text) > _LONGEST:
            raise Unanswered(f"ERROR: <input>:1:1: expression is longer than {_LONGEST} characters")
        wrapped = with_optionals(text)
        try:
            self._checker.compile(wrapped)
            return self._runner.compile(wrapped)
        except RuntimeError as error:
            raise Unanswered(_NOISE.sub("", str(error))) from error


class Evaluator:
    """Compiles each selector once, and evaluates it for one cluster at a time."""

    def __init__(self) -> None:
        self._scores: Scores = lambda _: None
        self._tongue = Tongue(self._own(), {"managedCluster": "Map"})
        self._programs: dict[tuple[str, ...], Program | str] = {}

    def _own(self) -> list[Overload]:
        return [
            Overload("scores", ("Map", "string"), "list", self._scores_of, member=True),
            _PARSE_JSON,
        ]

    def _scores_of(self, cluster: Raw, resource: str) -> list[Raw]:
        found = self._scores(resource)
        if found is None:
            raise Unmatched(f"there is no AddOnPlacementScore {resource}")
        return [{"name": name, "value": value} for name, value in found.items()]

    def __call__(self, expressions: tuple[str, ...]) -> Program | str:
        known = self._programs.get(expressions)
        if known is None:
            if len(self._programs) >= 1024:
                self._programs.clear()
            known = self._programs[expressions] = self._compile(expressions)
        return known

    def _compile(self, expressions: tuple[str, ...]) -> Program | str:
        compiled = []
        for text in expressions:
            try:
                compiled.append((text, self._tongue.compile(text)))
            except Unanswered as error:
                return str(error)

        def holds(cluster: Raw, scores: Scores) -> bool:
            self._scores = scores
            total = 0
            for text, expression in compiled:
                estimate = cost(text, cluster)
                total += estimate
                if estimate > COST_LIMIT or total > COST_LIMIT_OF_SELECTOR:
                    return False
                try:
                    result = expression.eval(data={"managedCluster": cluster}).value()
                except RuntimeError:
                    return False
                if result is not True:
                    return False
            return True

        return holds

    def value(self, text: str, known: Mapping[str, Any]) -> Any:
        """The value of an expression about an `object` (and, if known, a `result`); raises `ExpressionError`."""
        if cost(text, dict(known)) > COST_LIMIT:
            raise Unanswered("the expression would cost more than it may")
        try:
            found = _about_objects(text).eval(data={"object": None, "result": False, **known})
            if found.type() == cel.Type.ERROR:
                raise Unanswered(_NOISE.sub("", str(found.value())))
            return found.plain_value()
        except (RuntimeError, TypeError) as error:
            raise Unanswered(_NOISE.sub("", str(error))) from error


@lru_cache(maxsize=1024)
def _about_objects(text: str) -> Any:
    return _tongue_of_rules().compile(text)


@cache
def _tongue_of_rules() -> Tongue:
    known = Overload("hasConditions", ("dyn",), "bool", _has_conditions)
    return Tongue([known, _PARSE_JSON], {"object": "dyn", "result": "bool"})


def _has_conditions(status: Any) -> bool:
    return isinstance(status, dict) and isinstance(status.get("conditions"), list) and bool(status["conditions"])


def _parsed(text: str) -> Any:
    return _as_json(json.loads(text))


def _as_json(value: Any) -> Any:
    """Numbers in JSON are doubles."""
    if isinstance(value, bool) or not isinstance(value, int | list | dict):
        return value
    if isinstance(value, int):
        return float(value)
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    return {key: _as_json(item) for key, item in value.items()}


_PARSE_JSON = Overload("parseJSON", ("string",), "dyn", _parsed, member=True)


def _environment(overloads: list[Overload], opaque: Mapping[str, Any], variables: Mapping[str, str]) -> Any:
    types: dict[str, Any] = {
        "string": cel.Type.STRING,
        "bool": cel.Type.BOOL,
        "int": cel.Type.INT,
        "uint": cel.Type.UINT,
        "double": cel.Type.DOUBLE,
        "null": cel.Type.NULL,
        "bytes": cel.Type.BYTES,
        "timestamp": cel.Type.TIMESTAMP,
        "duration": cel.Type.DURATION,
        "dyn": cel.Type.DYN,
        "list": cel.Type.List(cel.Type.DYN),
        "texts": cel.Type.List(cel.Type.STRING),
        "Map": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
        **opaque,
    }
    by_name: dict[str, list[Any]] = {"string": _texts_of_standard_values()}
    for number, overload in enumerate(overloads):
        by_name.setdefault(overload.name, []).append(
            cel.Overload(
                f"trimtab_{overload.name}_{number}",
                types[overload.returns],
                [types[taken] for taken in overload.takes],
                overload.member,
                overload.does,
            )
        )
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml("stdlib: {exclude_functions: [{name: string}]}"),
        variables={name: types[type_] for name, type_ in variables.items()},
        extensions=[ext_optional.ExtOptional()],
        functions=[cel.FunctionDecl(name, found) for name, found in by_name.items()],
    )


def _texts_of_standard_values() -> list[Any]:
    """`string(x)` as the evaluator declares it: only a function declared anew can get an overload for addresses."""
    kinds = ("INT", "UINT", "DOUBLE", "BOOL", "STRING", "BYTES", "TIMESTAMP", "DURATION")
    return [
        cel.Overload(f"{kind.lower()}_to_string", cel.Type.STRING, [getattr(cel.Type, kind)], False) for kind in kinds
    ]


def _spelled_out(overloads: list[Overload]) -> list[Overload]:
    """Overloads for evaluation: opaque types become maps, and a `dyn` argument gets one overload per type."""
    forms: dict[tuple[str, tuple[str, ...], bool], Overload] = {}
    for overload in overloads:
        for kinds in product(*(_ANY if taken == "dyn" else (taken,) for taken in overload.takes)):
            types = tuple("Map" if taken in OPAQUE else taken for taken in kinds)
            expanded = Overload(overload.name, kinds, overload.returns, overload.does, overload.member)
            forms.setdefault((overload.name, types, overload.member), expanded)
    return list(forms.values())


def cost(expression: str, cluster: Raw) -> int:
    """An upper bound of the evaluation steps: the largest collection to the power of the loop depth."""
    depth = loops_in_loops(expression)
    if depth == 0:
        return len(expression)
    return int(max(largest(cluster, unpacked=_UNPACKS.search(expression) is not None), len(expression)) ** depth)


@cache
def loops_in_loops(expression: str) -> int:
    """How deeply comprehensions are nested in the expression."""
    starts = {match.end() - 1 for match in _LOOP.finditer(expression)}
    deepest = depth = 0
    opened: list[bool] = []
    for position, char in enumerate(expression):
        if char == "(":
            opened.append(position in starts)
            depth += position in starts
            deepest = max(deepest, depth)
        elif char == ")" and opened:
            depth -= opened.pop()
    return deepest


def largest(value: Any, *, unpacked: bool) -> int:
    """The size of the largest list or map below; strings count when the expression takes them apart."""
    if isinstance(value, str):
        return len(value) if unpacked else 0
    if isinstance(value, dict):
        return max(len(value), *(largest(item, unpacked=unpacked) for item in value.values()), 0)
    if isinstance(value, list | tuple):
        return max(len(value), *(largest(item, unpacked=unpacked) for item in value), 0)
    return 0


@cache
def compiler() -> Compiler | None:
    """The evaluator, or None where the extra `cel` is not installed."""
    return None if cel is None else Evaluator()
