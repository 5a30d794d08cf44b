"""CEL expressions about a managed cluster or an object in one, with the libraries of Kubernetes and a cost limit.

The evaluator is the extra `cel`; `compiler()` is None where it is not installed. An evaluation cannot be interrupted,
so `cost` estimates what it costs before each call.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from itertools import product
from typing import Any, TypeAlias

from trimtab.api.value import Raw
from trimtab.interpret.cel.cost import estimate_cost
from trimtab.interpret.cel.formats import format_overloads, wrap_optional_calls
from trimtab.interpret.cel.library import Overload, library_overloads
from trimtab.interpret.cel.strings import string_overloads

try:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional
except ImportError:  # the extra is not installed
    cel = None

ScoreLookup: TypeAlias = Callable[[str], Mapping[str, int] | None]
SelectorProgram: TypeAlias = Callable[[Raw, ScoreLookup], bool]

OPAQUE_TYPES = (
    *("Quantity", "IP", "CIDR", "URL", "Semver", "Format"),
    *("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision"),
)
"""Types that CEL does not have."""
_ALL_TYPES = ("string", "int", "uint", "double", "bool", "null", "bytes", "timestamp", "duration", "list", "Map")
COST_LIMIT = 1_000_000
"""For one expression about one cluster, as upstream."""
SELECTOR_COST_LIMIT = 10_000_000
_MAX_EXPRESSION_LENGTH = 16_384
_STATUS_CODE = re.compile(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$")


class MissingScore(Exception):
    """Raised inside an expression that reads a missing score: the cluster does not match."""


class ExpressionError(Exception):
    """An expression has no value; the message is for its author."""


class ExpressionEnvironment:
    """Compiles expressions over some variables, after checking their types."""

    def __init__(self, overloads: list[Overload], variables: Mapping[str, str]) -> None:
        opaque = {name: cel.Type.AbstractType(f"kubernetes.{name}") for name in OPAQUE_TYPES}
        overloads = [*library_overloads(), *string_overloads(), *format_overloads(), *overloads]
        # the evaluator has no values of opaque types: the first environment checks types, the second evaluates maps
        self._checker = _environment(overloads, opaque, variables)
        maps = dict.fromkeys(opaque, cel.Type.Map(cel.Type.STRING, cel.Type.DYN))
        self._evaluator = _environment(_expand_overloads(overloads), maps, variables)

    def compile(self, text: str) -> Any:
        if len(text) > _MAX_EXPRESSION_LENGTH:
            raise ExpressionError(f"ERROR: <input>:1:1: expression is longer than {_MAX_EXPRESSION_LENGTH} characters")
        wrapped = wrap_optional_calls(text)
        try:
            self._checker.compile(wrapped)
            return self._evaluator.compile(wrapped)
        except RuntimeError as error:
            raise ExpressionError(_STATUS_CODE.sub("", str(error))) from error


class Evaluator:
    """Compiles each selector once, and evaluates it for one cluster at a time."""

    def __init__(self) -> None:
        self._score_lookup: ScoreLookup = lambda _: None
        self._environment = ExpressionEnvironment(self._own_overloads(), {"managedCluster": "Map"})
        self._programs: dict[tuple[str, ...], SelectorProgram | str] = {}

    def _own_overloads(self) -> list[Overload]:
        return [
            Overload("scores", ("Map", "string"), "list", self._scores_of, member=True),
            _PARSE_JSON,
        ]

    def _scores_of(self, cluster: Raw, resource: str) -> list[Raw]:
        found = self._score_lookup(resource)
        if found is None:
            raise MissingScore(f"there is no AddOnPlacementScore {resource}")
        return [{"name": name, "value": value} for name, value in found.items()]

    def __call__(self, expressions: tuple[str, ...]) -> SelectorProgram | str:
        known = self._programs.get(expressions)
        if known is None:
            if len(self._programs) >= 1024:
                self._programs.clear()
            known = self._programs[expressions] = self._compile(expressions)
        return known

    def _compile(self, expressions: tuple[str, ...]) -> SelectorProgram | str:
        compiled = []
        for text in expressions:
            try:
                compiled.append((text, self._environment.compile(text)))
            except ExpressionError as error:
                return str(error)

        def holds(cluster: Raw, scores: ScoreLookup) -> bool:
            self._score_lookup = scores
            total = 0
            for text, expression in compiled:
                estimate = estimate_cost(text, {"managedCluster": cluster})
                total += estimate
                if estimate > COST_LIMIT or total > SELECTOR_COST_LIMIT:
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
        if estimate_cost(text, dict(known)) > COST_LIMIT:
            raise ExpressionError("the expression exceeds the cost limit")
        try:
            found = _compile_object_expression(text).eval(data={"object": None, "result": False, **known})
            if found.type() == cel.Type.ERROR:
                raise ExpressionError(_STATUS_CODE.sub("", str(found.value())))
            return found.plain_value()
        except (RuntimeError, TypeError) as error:
            raise ExpressionError(_STATUS_CODE.sub("", str(error))) from error


@lru_cache(maxsize=1024)
def _compile_object_expression(text: str) -> Any:
    return _object_environment().compile(text)


@cache
def _object_environment() -> ExpressionEnvironment:
    known = Overload("hasConditions", ("dyn",), "bool", _has_conditions)
    return ExpressionEnvironment([known, _PARSE_JSON], {"object": "dyn", "result": "bool"})


def _has_conditions(status: Any) -> bool:
    return isinstance(status, dict) and isinstance(status.get("conditions"), list) and bool(status["conditions"])


def _parse_json(text: str) -> Any:
    return _with_float_numbers(json.loads(text))


def _with_float_numbers(value: Any) -> Any:
    """Numbers in JSON are doubles."""
    if isinstance(value, bool) or not isinstance(value, int | list | dict):
        return value
    if isinstance(value, int):
        return float(value)
    if isinstance(value, list):
        return [_with_float_numbers(item) for item in value]
    return {key: _with_float_numbers(item) for key, item in value.items()}


_PARSE_JSON = Overload("parseJSON", ("string",), "dyn", _parse_json, member=True)


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
    by_name: dict[str, list[Any]] = {"string": _standard_string_overloads()}
    for number, overload in enumerate(overloads):
        by_name.setdefault(overload.name, []).append(
            cel.Overload(
                f"trimtab_{overload.name}_{number}",
                types[overload.result_type],
                [types[taken] for taken in overload.argument_types],
                overload.member,
                overload.function,
            )
        )
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml("stdlib: {exclude_functions: [{name: string}]}"),
        variables={name: types[type_] for name, type_ in variables.items()},
        extensions=[ext_optional.ExtOptional()],
        functions=[cel.FunctionDecl(name, found) for name, found in by_name.items()],
    )


def _standard_string_overloads() -> list[Any]:
    """`string(x)` as the evaluator declares it: only a function declared anew can get an overload for addresses."""
    kinds = ("INT", "UINT", "DOUBLE", "BOOL", "STRING", "BYTES", "TIMESTAMP", "DURATION")
    return [
        cel.Overload(f"{kind.lower()}_to_string", cel.Type.STRING, [getattr(cel.Type, kind)], False) for kind in kinds
    ]


def _expand_overloads(overloads: list[Overload]) -> list[Overload]:
    """Overloads for evaluation: opaque types become maps, and a `dyn` argument gets one overload per type."""
    forms: dict[tuple[str, tuple[str, ...], bool], Overload] = {}
    for overload in overloads:
        for kinds in product(*(_ALL_TYPES if taken == "dyn" else (taken,) for taken in overload.argument_types)):
            types = tuple("Map" if taken in OPAQUE_TYPES else taken for taken in kinds)
            expanded = Overload(overload.name, kinds, overload.result_type, overload.function, overload.member)
            forms.setdefault((overload.name, types, overload.member), expanded)
    return list(forms.values())


@cache
def compiler() -> Evaluator | None:
    """The evaluator, or None where the extra `cel` is not installed."""
    return None if cel is None else Evaluator()
