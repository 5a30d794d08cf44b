"""The keys of the store: `/registry/<group>/<resource>/<namespace>/<name>`, without a namespace for objects of the cluster.

What the server keeps beside the objects is below `/trimtab/`, where no list or watch of the API looks.
"""

import re
from typing import NamedTuple

ROOT = "/registry/"
_OWN_ROOT = "/trimtab/"
CORE = "core"
"""Stands for the API group without a name."""
_RESOURCE_PREFIX = re.compile("[^/]*/[^/]*/[^/]*/[^/]*/")


def group_prefix(group: str) -> str:
    """The prefix of all objects of an API group."""
    return f"{ROOT}{group or CORE}/"


def resource_prefix(group: str, resource: str) -> str:
    """The prefix of all objects of a resource."""
    return f"{ROOT}{group or CORE}/{resource}/"


def object_key(group: str, resource: str, *names: str) -> str:
    """The key of an object by its name, or its namespace and name; empty names are left out."""
    return resource_prefix(group, resource) + "/".join(filter(None, names))


def key_below(prefix: str, name: str, namespace: str = "") -> str:
    """The same below the prefix of a resource."""
    return f"{prefix}{namespace}/{name}" if namespace else f"{prefix}{name}"


def namespace_below(prefix: str, namespace: str) -> str:
    """The prefix of the objects of a resource in one namespace; without a namespace, in all."""
    return f"{prefix}{namespace}/" if namespace else prefix


def resource_prefix_of(key: str) -> str:
    """`/registry/<group>/<resource>/` of a key; a key or prefix with fewer segments is its own prefix.

    No resource prefix is the beginning of a key of another resource, so prefixes in name order hold all keys in order.
    """
    found = _RESOURCE_PREFIX.match(key)
    return key if found is None else found[0]


class ObjectName(NamedTuple):
    """What the key of an object consists of."""

    group: str
    resource: str
    namespace: str
    name: str


def parse_object_key(key: str) -> ObjectName:
    _, _, group, resource, rest = key.split("/", 4)
    namespace, _, name = rest.rpartition("/")
    return ObjectName("" if group == CORE else group, resource, namespace, name)


def own_key(*names: str) -> str:
    """The key of a record that is no object of the API."""
    return _OWN_ROOT + "/".join(names)
