"""Random native objects in the form in which Kubernetes writes them, generated from the field table."""

import base64
from typing import Any

from hypothesis import strategies as st

from trimtab.api.kinds.native import codec
from trimtab.api.kinds.native.fields import NativeField, message

_text = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=4)
_LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "string": _text,
    "bool": st.just(True),
    "int32": st.integers(1, 2**31 - 1) | st.integers(-(2**31), -1),
    "int64": st.integers(1, 2**63 - 1) | st.integers(-(2**63), -1),
    "double": st.integers(1, 1000),
    "bytes": st.binary(min_size=1, max_size=4).map(lambda b: base64.b64encode(b).decode()),
    "Quantity": st.sampled_from(["1", "500m", "2Gi", "1e3"]),
    "Time": st.sampled_from(["2026-01-01T00:00:00Z", "1999-12-31T23:59:59Z"]),
    "MicroTime": st.sampled_from(["2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:00.999999Z"]),
    "IntOrString": st.sampled_from([1, "25%", "http"]),
    "RawExtension": st.just({"kind": "X", "n": [1, {"a": None}]}),
    "FieldsV1": st.just({"f:data": {".": {}}}),
    "JSON": st.just({"a": [1, "x"]}),
    "ExtraValue": st.just(["a", "b"]),
    "JSONSchemaPropsOrArray": st.just({"type": "string"}),
    "JSONSchemaPropsOrBool": st.sampled_from([True, False, {"type": "object"}]),
    "JSONSchemaPropsOrStringArray": st.just(["a"]),
}


@st.composite
def objects(draw: st.DrawFn, name: str, depth: int = 5) -> dict[str, Any]:
    """A message called `name` with a few random fields set, in normal form."""
    fields = [f for f in message(name).json_fields.values() if depth > 0 or not f.is_message]
    chosen = draw(st.lists(st.sampled_from(fields), max_size=4, unique=True)) if fields else []
    return codec.read(name, {f.name: draw(_value(f, depth)) for f in chosen}).body


@st.composite
def _value(draw: st.DrawFn, field: NativeField, depth: int) -> Any:
    one = objects(field.type, depth - 1) if field.is_message else _LEAVES[field.type]
    if field.shape == "list":
        return draw(st.lists(one, min_size=1, max_size=2))
    if field.shape == "map":
        return draw(st.dictionaries(_text, one, min_size=1, max_size=2))
    return draw(one)
