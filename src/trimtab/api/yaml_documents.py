"""YAML texts as JSON values, built from parser events with limits on depth, values and expanded aliases.

PyYAML's own loader recurses in C, so that a few kilobytes of brackets end the process, and shares the values of aliases,
so that a few hundred bytes become gigabytes when they are written as JSON. Here nothing recurses, and an alias counts as
many values as its anchor has. As in Kubernetes, a timestamp is a string, and keys are strings.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from trimtab.api import limits

_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PREFIX = "tag:yaml.org,2002:"
_STRING, _INTEGER, _FLOAT, _BOOLEAN, _NULL, _MERGE = (
    f"{_PREFIX}{name}" for name in ("str", "int", "float", "bool", "null", "merge")
)
_NUMBERS = (_INTEGER, _FLOAT)
_RESOLVED_TAGS = (*_NUMBERS, _BOOLEAN, _NULL, _MERGE)
_RESOLVERS: dict[str, list[tuple[str, Any]]] = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in _RESOLVED_TAGS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_CONSTRUCTOR: Any = yaml.constructor.SafeConstructor()
_CONSTRUCT = {
    _INTEGER: _CONSTRUCTOR.construct_yaml_int,
    _FLOAT: _CONSTRUCTOR.construct_yaml_float,
    _BOOLEAN: _CONSTRUCTOR.construct_yaml_bool,
    _NULL: _CONSTRUCTOR.construct_yaml_null,
    _STRING: _CONSTRUCTOR.construct_yaml_str,
}
_ABSENT: Any = object()
_MERGE_KEY: Any = object()


class YamlError(ValueError):
    """The text is not YAML, or has no form in JSON; the message says where."""


class YamlTooLarge(YamlError):
    """The text has more values than allowed, or more bytes after its aliases are expanded."""


class YamlLimits(NamedTuple):
    nodes: int
    size: int
    """Bytes, also after expansion."""
    depth: int = limits.MAX_DEPTH


BODY = YamlLimits(limits.MAX_NODES, limits.MAX_BODY_BYTES)
FILE = YamlLimits(limits.MAX_FILE_NODES, limits.MAX_FILE_BYTES)


def load_yaml(text: str | bytes, bounds: YamlLimits = BODY) -> Any:
    """The only document of a text, None when there is none; raises `YamlError`."""
    documents = load_yaml_documents(text, bounds)
    found = next(documents, None)
    if next(documents, _ABSENT) is not _ABSENT:
        raise YamlError("expected a single document in the stream, but found another document")
    return found


def load_yaml_documents(text: str | bytes, bounds: YamlLimits = BODY) -> Iterator[Any]:
    """Each document of a text; raises `YamlError`."""
    if len(text) > bounds.size:
        raise YamlTooLarge(f"the text is longer than {bounds.size} bytes")
    try:
        plain = text if isinstance(text, str) else text.decode()  # never UTF-16, which would hide what is counted
        if plain.count("%TAG") > limits.MAX_TAG_DIRECTIVES:
            raise YamlError(f"the text has more than {limits.MAX_TAG_DIRECTIVES} %TAG directives")
        yield from _DocumentBuilder(bounds).build(_SafeLoader(plain))
    except yaml.MarkedYAMLError as error:
        raise YamlError(_describe(error)) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise YamlError(str(error).partition("\n")[0]) from None


def repeated_yaml_keys(text: str | bytes, bounds: YamlLimits = BODY) -> list[str]:
    """The keys that a map of the text has twice, with their lines; the text is valid YAML or JSON."""
    builder = _DocumentBuilder(bounds)
    for _ in builder.build(_SafeLoader(text if isinstance(text, str) else text.decode())):
        pass
    return builder.repeated_keys


class _Container:
    """A list or map that is not complete yet."""

    __slots__ = ("anchor", "height", "key", "mark", "merged", "nodes_before", "size_before", "value")

    def __init__(self, value: Any, event: Any, nodes: int, size: int) -> None:
        self.value = value
        self.anchor = event.anchor
        self.mark = event.start_mark
        self.height = 1
        self.key: Any = _ABSENT
        self.merged: list[dict[str, Any]] = []
        self.nodes_before = nodes
        self.size_before = size

    def complete(self) -> Any:
        """The value; own keys win over merged ones, whose order in front is that of PyYAML."""
        if not self.merged:
            return self.value
        whole: dict[str, Any] = {}
        for other in self.merged:
            whole.update(other)
        return {**whole, **self.value}


class _Anchor(NamedTuple):
    value: Any
    nodes: int
    size: int
    height: int


class _DocumentBuilder:
    """Turns the events of a text into values, and counts them."""

    def __init__(self, bounds: YamlLimits) -> None:
        self._bounds = bounds
        self._nodes = self._size = 0
        self._open: list[_Container] = []
        self._anchors: dict[str, _Anchor | None] = {}
        """By name; None while the value of the anchor is not complete."""
        self._root: Any = None
        self.repeated_keys: list[str] = []

    def build(self, parser: Any) -> Iterator[Any]:
        while (event := parser.get_event()) is not None:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._add_scalar(event)
            elif kind is yaml.AliasEvent:
                self._add_alias(event)
            elif kind is yaml.MappingStartEvent:
                self._open_container(event, {})
            elif kind is yaml.SequenceStartEvent:
                self._open_container(event, [])
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._close_container()
            elif kind is yaml.DocumentStartEvent:
                self._anchors, self._root = {}, None
            elif kind is yaml.DocumentEndEvent:
                yield self._root

    def _count(self, nodes: int, size: int) -> None:
        self._nodes += nodes
        self._size += size
        if self._nodes > self._bounds.nodes:
            raise YamlTooLarge(f"the text has more than {self._bounds.nodes} values, counting those of aliases")
        if self._size > self._bounds.size:
            raise YamlTooLarge(f"the text is longer than {self._bounds.size} bytes when its aliases are expanded")

    def _expects_key(self) -> bool:
        return bool(self._open) and self._open[-1].key is _ABSENT and isinstance(self._open[-1].value, dict)

    def _add_scalar(self, event: Any) -> None:
        is_key = self._expects_key()
        self._count(0 if is_key else 1, len(event.value))
        tag = event.tag
        if tag is None or tag == "!":
            tag = _resolve_tag(event.value) if event.implicit[0] else _STRING
        value = event.value if tag == _MERGE else _scalar_value(tag, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor(value, 1, len(event.value), 0)
        self._add(_MERGE_KEY if is_key and tag == _MERGE else value, event.start_mark)

    def _add_alias(self, event: Any) -> None:
        anchor = self._anchors.get(event.anchor, _ABSENT)
        if anchor is _ABSENT:
            raise YamlError(f"found undefined alias {event.anchor!r}{_place(event.start_mark)}")
        if anchor is None:
            raise YamlError(f"anchor {event.anchor!r} value contains itself{_place(event.start_mark)}")
        self._count(anchor.nodes, anchor.size)
        self._check_depth(len(self._open) + anchor.height, event.start_mark)
        if self._open:
            self._open[-1].height = max(self._open[-1].height, anchor.height + 1)
        self._add(anchor.value, event.start_mark)

    def _check_depth(self, depth: int, mark: Any) -> None:
        if depth > self._bounds.depth:
            raise YamlError(f"exceeded max depth of {self._bounds.depth}{_place(mark)}")

    def _open_container(self, event: Any, value: Any) -> None:
        if event.tag not in (None, "!", f"{_PREFIX}map", f"{_PREFIX}seq"):
            raise YamlError(f"could not determine a constructor for the tag {event.tag!r}{_place(event.start_mark)}")
        if self._expects_key():
            raise YamlError(f"a key must be a string, not a map or a list{_place(event.start_mark)}")
        container = _Container(value, event, self._nodes, self._size)
        self._count(1, 2)
        self._open.append(container)
        self._check_depth(len(self._open), event.start_mark)
        if event.anchor is not None:
            self._anchors[event.anchor] = None

    def _close_container(self) -> None:
        closed = self._open.pop()
        value = closed.complete()
        if closed.anchor is not None:
            self._anchors[closed.anchor] = _Anchor(
                value, self._nodes - closed.nodes_before, self._size - closed.size_before, closed.height
            )
        if self._open:
            self._open[-1].height = max(self._open[-1].height, closed.height + 1)
        self._add(value, closed.mark)

    def _add(self, value: Any, mark: Any) -> None:
        if not self._open:
            self._root = value
            return
        container = self._open[-1]
        if isinstance(container.value, list):
            container.value.append(value)
        elif container.key is _ABSENT:
            container.key = value if value is _MERGE_KEY else _key_text(value, mark)
            if container.key in container.value and len(self.repeated_keys) < limits.MAX_FIELD_PROBLEMS:
                self.repeated_keys.append(f'line {mark.line + 1}: key "{container.key}" already set in map')
        elif container.key is _MERGE_KEY:
            container.merged += _merged_maps(value, mark)
            container.key = _ABSENT
        else:
            container.value[container.key] = value
            container.key = _ABSENT


def _describe(error: yaml.MarkedYAMLError) -> str:
    """The error in one line, where the parser uses four."""
    mark = error.problem_mark or error.context_mark
    text = error.problem or "invalid"
    context = f" ({error.context}{_place(error.context_mark)})" if error.context and error.context_mark else ""
    return f"{text}{_place(mark) if mark is not None else ''}{context}"


def _place(mark: Any) -> str:
    return f" in line {mark.line + 1}, column {mark.column + 1}"


def _resolve_tag(text: str) -> str:
    """The type of a scalar without quotes."""
    return next((tag for tag, pattern in _RESOLVERS.get(text[:1], ()) if pattern.match(text)), _STRING)


def _scalar_value(tag: str, event: Any) -> Any:
    if tag == _STRING:
        return event.value
    construct = _CONSTRUCT.get(tag)
    if construct is None:
        raise YamlError(f"could not determine a constructor for the tag {tag!r}{_place(event.start_mark)}")
    if tag in _NUMBERS and len(event.value) > limits.MAX_NUMBER_LENGTH:
        raise YamlError(f"a number is longer than {limits.MAX_NUMBER_LENGTH} characters{_place(event.start_mark)}")
    try:
        value = construct(yaml.ScalarNode(tag, event.value))
        if type(value) is int and not -(1 << 63) <= value < 1 << 64:
            value = float(value)
    except (ValueError, KeyError, OverflowError, IndexError):
        raise YamlError(
            f"{event.value[:100]!r} is not a {tag.removeprefix(_PREFIX)}{_place(event.start_mark)}"
        ) from None
    if type(value) is float and not math.isfinite(value):
        raise YamlError(f"{event.value!r} cannot be converted to JSON{_place(event.start_mark)}")
    return value


def _key_text(key: Any, mark: Any) -> str:
    """A key as Kubernetes converts it to JSON."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int):
        return str(key)
    if isinstance(key, float):
        return f"{key:g}"
    raise YamlError(f"a key must be a string, not {'null' if key is None else 'a map or a list'}{_place(mark)}")


def _merged_maps(value: Any, mark: Any) -> list[dict[str, Any]]:
    """The maps of a merge key, the one that wins last."""
    maps = [value] if isinstance(value, dict) else value
    if not isinstance(maps, list) or not all(isinstance(item, dict) for item in maps):
        raise YamlError(f"map merge requires map or sequence of maps as the value{_place(mark)}")
    return maps[::-1]
