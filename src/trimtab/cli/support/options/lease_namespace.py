"""The option with the namespace of the Lease of `trimtab controllers`: the one in which the control plane runs."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from trimtab.controllers.propagation.detect import OWN_NAMESPACE

F = TypeVar("F", bound=Callable[..., Any])
USUAL_NAMESPACES = ("trimtab-system", "kube-system")
"""The namespaces of the Lease by default: of the chart, and of `trimtab controllers`."""


def lease_namespace_option(purpose: str) -> Callable[[F], F]:
    usual = ", then ".join(USUAL_NAMESPACES)
    return click.option(
        "--lease-namespace",
        default="",
        help=f"Namespace of the Lease of the controllers, {purpose}; default: {usual}.",
    )


def possible_namespaces(lease_namespace: str) -> tuple[str, ...]:
    return (lease_namespace,) if lease_namespace else USUAL_NAMESPACES


def own_namespace_settings(lease_namespace: str) -> Mapping[str, object]:
    """The setting that keeps the namespace of the control plane out of propagation; the usual ones always are."""
    return {OWN_NAMESPACE: lease_namespace} if lease_namespace else {}
