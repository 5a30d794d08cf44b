"""Filling fields that are missing, in new objects."""

from collections.abc import Callable
from typing import Any

from trimtab.api.value import Raw

Fill = Callable[[Raw], Raw]


def fill_member(obj: Raw, key: str, fill: Fill) -> Raw:
    """The object with `fill` applied to its member `key`, if there is one."""
    member = obj.get(key)
    return {**obj, key: fill(member)} if type(member) is dict else obj


def fill_items(obj: Raw, key: str, fill: Fill) -> Raw:
    items = obj.get(key)
    return {**obj, key: [fill(item) for item in items]} if items else obj


def set_missing(obj: Raw, **values: Any) -> Raw:
    """The object with these members set where they are missing."""
    for key in obj:
        if key in values and obj[key] is not None:
            del values[key]
    return {**obj, **values} if values else obj
