"""Filling fields that are missing, in new objects."""

from collections.abc import Callable, Mapping
from typing import Any

from trimtab.api.value import Raw

Fill = Callable[[Raw], Raw]


def fill_member(obj: Raw, key: str, fill: Fill) -> Raw:
    """The object with `fill` applied to its member `key`, if there is one."""
    return {**obj, key: fill(obj[key])} if key in obj and type(obj[key]) is dict else obj


def fill_members(obj: Raw, fills: Mapping[str, Fill]) -> Raw:
    """The object with these functions applied to the members of these names that it has."""
    filled = {key: fill(obj[key]) for key, fill in fills.items() if key in obj and isinstance(obj[key], dict)}
    return {**obj, **filled} if filled else obj


def fill_items(obj: Raw, key: str, fill: Fill) -> Raw:
    """The object with `fill` applied to the items of its list `key`, if there are any."""
    items = obj.get(key)
    return {**obj, key: [fill(item) for item in items]} if items else obj


def set_missing(obj: Raw, **values: Any) -> Raw:
    """The object with these members set where they are missing."""
    filled = obj
    for key, value in values.items():
        if key not in obj or obj[key] is None:
            filled = {**obj} if filled is obj else filled
            filled[key] = value
    return filled
