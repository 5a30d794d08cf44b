"""`trimtab crds`: the CustomResourceDefinitions to install on a Kubernetes API server."""

from typing import Any

import click
import yaml

from trimtab.api import kinds as declarations
from trimtab.api.admission.policies import policy_objects
from trimtab.api.kind import Kind, kinds
from trimtab.api.profile import PROFILES, TRIMTAB
from trimtab.api.schema.from_types import crd
from trimtab.api.value import Raw
from trimtab.errors import InputError
from trimtab.registry import discover


def custom_kinds() -> list[Kind]:
    """All kinds that are not built into a Kubernetes API server."""
    discover(declarations)
    return [kind for kind in kinds.values() if kind.custom or kind.id == "clusters.cluster.karmada.io"]


class _NoAliasDumper(yaml.SafeDumper):
    """Writes YAML without anchors: schemas share parts in memory, and aliases are hard to read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def dump_crd(definition: Raw) -> str:
    return yaml.dump(definition, Dumper=_NoAliasDumper, sort_keys=False, width=120)


@click.command()
@click.option("--group", "groups", multiple=True, help="Only kinds of this API group; can be repeated.")
@click.option(
    "--conversion-url",
    default="",
    help="URL of the conversion webhook; without it only the storage version of each kind is served.",
)
@click.option(
    "--profile",
    type=click.Choice(sorted(PROFILES)),
    default=TRIMTAB.name,
    show_default=True,
    help="upstream: kinds of the peers have only the printer columns of their definitions.",
)
@click.option(
    "--policies",
    is_flag=True,
    help="Print instead the ValidatingAdmissionPolicies with the checks that the definitions cannot express.",
)
def command(groups: tuple[str, ...], conversion_url: str, profile: str, policies: bool) -> None:
    """Print the CustomResourceDefinitions of Trimtab, for `kubectl apply --server-side -f -`."""
    webhook = {"url": conversion_url} if conversion_url else None
    found = custom_kinds()
    known = {kind.group for kind in found}
    if unknown := sorted(set(groups) - known):
        raise InputError(f"there are no kinds of the group {unknown[0]}; groups: {', '.join(sorted(known))}")
    chosen = [kind for kind in found if not groups or kind.group in groups]
    shown = PROFILES[profile].show_progress_columns
    definitions = (crd(kind, webhook, progress_columns=shown) for kind in chosen)
    for obj in policy_objects(chosen) if policies else definitions:
        click.echo(f"---\n{dump_crd(obj)}", nl=False)
