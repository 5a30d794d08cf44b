"""Which kinds users may propagate to members."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from trimtab.client.client import Resource
from trimtab.errors import InputError

OWN_GROUPS = ("open-cluster-management.io", "trimtab.dev")
KARMADA_GROUPS = frozenset(
    f"{name}.karmada.io"
    for name in (
        "apps",
        "autoscaling",
        "cluster",
        "config",
        "networking",
        "operator",
        "policy",
        "remedy",
        "search",
        "work",
    )
)
"""Karmada's own groups; users may have custom resources in other groups below karmada.io."""
NEVER_PROPAGATED = {
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    "nodes",
    "componentstatuses",
    "controllerrevisions.apps",
}
"""Kinds whose objects describe one API server only."""


def is_propagatable(resource: Resource) -> bool:
    """Whether users may propagate objects of this kind."""
    own = any(resource.group == group or resource.group.endswith("." + group) for group in OWN_GROUPS)
    return not own and resource.group not in KARMADA_GROUPS and resource.id not in NEVER_PROPAGATED


DEFAULT = "default"
EVERY_KIND = "*"
DEFAULT_KINDS: Mapping[str, tuple[str, ...]] = {
    "": (
        "configmaps",
        "limitranges",
        "persistentvolumeclaims",
        "pods",
        "resourcequotas",
        "secrets",
        "serviceaccounts",
        "services",
    ),
    "apps": ("daemonsets", "deployments", "replicasets", "statefulsets"),
    "autoscaling": ("horizontalpodautoscalers",),
    "batch": ("cronjobs", "jobs"),
    "discovery.k8s.io": ("endpointslices",),
    "multicluster.x-k8s.io": ("serviceexports", "serviceimports"),
    "networking.k8s.io": ("ingresses", "networkpolicies"),
    "policy": ("poddisruptionbudgets",),
}
"""What applications consist of, by API group."""
_NAMED_KIND = re.compile(r"(\*|[a-z0-9]+)(\.[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?")


class KindSelection(NamedTuple):
    """A list of kinds: resources as `deployments.apps` or `*.example.com`, `default`, or `*` for every kind."""

    names: tuple[str, ...]

    def by_group(self) -> Iterator[tuple[str, list[str]]]:
        """The resources of each API group, sorted; `*` stands for all of a group, or for all groups."""
        if EVERY_KIND in self.names:
            yield EVERY_KIND, [EVERY_KIND]
            return
        named: dict[str, set[str]] = {}
        for name in self.names:
            resource, _, group = name.partition(".")
            for of_group, resources in DEFAULT_KINDS.items() if name == DEFAULT else [(group, (resource,))]:
                named.setdefault(of_group, set()).update(resources)
        for group in sorted(named):
            yield group, [EVERY_KIND] if EVERY_KIND in named[group] else sorted(named[group])

    def includes(self, resource: Resource) -> bool:
        return any(
            group in (EVERY_KIND, resource.group) and not {EVERY_KIND, resource.plural}.isdisjoint(resources)
            for group, resources in self.by_group()
        )


ALL_KINDS = KindSelection((EVERY_KIND,))


def parse_kinds(text: str) -> KindSelection:
    """The kinds of a comma-separated list; raises `InputError` for one that cannot be a resource."""
    names = tuple(part for part in (part.strip() for part in text.split(",")) if part)
    if not names:
        raise InputError("--kinds: name at least one kind, such as deployments.apps")
    for name in names:
        if _NAMED_KIND.fullmatch(name) is None:
            raise InputError(
                f"--kinds: {name!r} is no kind; write resources as deployments.apps, configmaps or *.example.com, "
                f"{DEFAULT} for what applications consist of, or {EVERY_KIND} for every kind"
            )
    return KindSelection(names)
