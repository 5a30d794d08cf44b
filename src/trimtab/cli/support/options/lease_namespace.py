"""The namespace of the Lease of `trimtab controllers`: the one in which the control plane runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from trimtab.api.value import Raw
from trimtab.cli.support.options.namespace import check_namespace
from trimtab.client.client import Client
from trimtab.controllers.propagation.template_scope import OWN_NAMESPACE
from trimtab.errors import ApiError
from trimtab.runtime.leader_election import LEASES

F = TypeVar("F", bound=Callable[..., Any])
LEASE_NAME = "trimtab-controllers"
USUAL_NAMESPACES = ("trimtab-system", "kube-system")
"""The namespaces of the Lease by default: of the chart, and of `trimtab controllers`."""


def lease_namespace_option(purpose: str) -> Callable[[F], F]:
    usual = " or ".join(USUAL_NAMESPACES)
    return click.option(
        "--lease-namespace",
        callback=check_namespace,
        default="",
        help=f"Namespace of the Lease of the controllers, {purpose}; default: where a Lease {LEASE_NAME} is found, else {usual}.",
    )


async def find_leases(client: Client, lease_namespace: str) -> tuple[Raw, ...]:
    """The Leases of controllers in all namespaces, those of the expected ones first; of the expected ones alone if this user
    may not list all."""
    expected = (lease_namespace,) if lease_namespace else USUAL_NAMESPACES
    try:
        found = (await client.list(LEASES, fields=f"metadata.name={LEASE_NAME}")).items
    except ApiError:
        return tuple([lease for namespace in expected if (lease := await _find_lease(client, namespace))])
    return tuple(sorted(found, key=lambda lease: lease["metadata"]["namespace"] not in expected))


async def _find_lease(client: Client, namespace: str) -> Raw | None:
    try:
        return await client.get(LEASES, namespace, LEASE_NAME)
    except ApiError:
        return None


def own_namespace_settings(lease_namespace: str, leases: Sequence[Raw]) -> Mapping[str, object]:
    """The setting that keeps the namespace of the control plane out of propagation; the usual ones always are."""
    others = [place for lease in leases if (place := lease["metadata"]["namespace"]) not in USUAL_NAMESPACES]
    own = lease_namespace or (others[0] if others else "")
    return {OWN_NAMESPACE: own} if own else {}
