"""JSON values as Go prints them, for error messages of kube-apiserver."""

from typing import Any


def go_type_name(value: Any) -> str:
    """The Go type of a decoded JSON value (`%T`)."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    return {str: "string", int: "int64", float: "float64"}.get(type(value), "<nil>")


def format_go_value(value: Any) -> str:
    """A decoded JSON value as Go formats it with `%v`."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{format_go_value(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(format_go_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return "<nil>" if value is None else str(value)
