"""The keys of objects: `/registry/<group>/<resource>/<namespace>/<name>`, without a namespace for objects of the cluster."""

ROOT = "/registry/"
CORE = "core"
"""Stands for the API group without a name."""


def group_prefix(group: str) -> str:
    """The prefix of all objects of an API group."""
    return f"{ROOT}{group or CORE}/"


def resource_prefix(group: str, resource: str) -> str:
    """The prefix of all objects of a resource."""
    return f"{ROOT}{group or CORE}/{resource}/"


def object_key(group: str, resource: str, *names: str) -> str:
    """The key of an object by its name, or its namespace and name; empty names are left out."""
    return resource_prefix(group, resource) + "/".join(filter(None, names))
