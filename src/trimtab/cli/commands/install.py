"""`trimtab install`: install the kinds and the controllers in a Kubernetes cluster, without Helm."""

from collections.abc import Sequence

import click
import yaml

from trimtab import __version__
from trimtab.api.admission.policies import policy_objects
from trimtab.api.schema.from_types import crd
from trimtab.api.value import Raw
from trimtab.cli.commands.crds import custom_kinds, dump_crd
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.installation import COMPONENT, MANAGER, NAMESPACE, PART_OF, installation_objects
from trimtab.cli.support.options.namespace import check_namespace
from trimtab.client.client import Client, Resource
from trimtab.client.kube import KubeClient
from trimtab.client.storage_migration import DEFINITIONS
from trimtab.errors import ApiError, InputError, NotFound

BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
DEFINITION_MANAGERS = (MANAGER, "kubectl", "Helm", "helm")
"""Who installs Trimtab; a definition that another manager wrote belongs to Karmada or Open Cluster Management."""

_BOOKKEEPING = ("managedFields", "resourceVersion", "generation")


@click.command()
@kubeconfig_options
@click.option("--image", required=True, help="The image, with its registry and tag or digest.")
@click.option("-n", "--namespace", callback=check_namespace, default=NAMESPACE, show_default=True)
@click.option(
    "--skip-group", "skipped", multiple=True, help="Leave the kinds of this API group as they are; can be repeated."
)
@click.option("--print", "prints", is_flag=True, help="Print the objects instead; for review, or for kubectl.")
@click.option("--dry-run", is_flag=True, help="Let the API server check all objects; write nothing.")
def command(
    kubeconfig: str, context: str, image: str, namespace: str, skipped: tuple[str, ...], prints: bool, dry_run: bool
) -> None:
    """Install or upgrade Trimtab in the cluster of the kubeconfig: what the Helm charts install with their default values.

    Every object is applied as `trimtab-install` (server-side apply) and printed. Objects of users are not touched. The kinds of
    groups that the cluster has from somebody else are left out with --skip-group.
    """
    kinds = [kind for kind in custom_kinds() if kind.group not in skipped]
    known = {kind.group for kind in custom_kinds()}
    if unknown := sorted(set(skipped) - known):
        raise InputError(f"--skip-group {unknown[0]}: there are no such kinds; groups: {', '.join(sorted(known))}")
    definitions = [crd(kind, None, progress_columns=True) for kind in kinds]
    objects = [*definitions, *policy_objects(kinds), *installation_objects(image, namespace)]
    if prints:
        for obj in objects:
            text = dump_crd(obj) if obj["kind"] == DEFINITIONS.kind else yaml.safe_dump(obj, sort_keys=False)
            click.echo(f"---\n{text}", nl=False)
        return

    async def work(client: KubeClient) -> None:
        await check_owners(client, definitions)
        await check_single(client, namespace)
        await apply_all(client, objects, dry_run=dry_run)

    with_client(kubeconfig, context, work)
    if dry_run:
        click.echo("nothing was written")
    else:
        click.echo(f"Trimtab {__version__} is installed; kubectl -n {namespace} rollout status deployment/trimtab")


async def check_owners(client: Client, definitions: Sequence[Raw]) -> None:
    """Refuse to replace a definition that somebody else installed; raises InputError."""
    for definition in definitions:
        name = definition["metadata"]["name"]
        try:
            found = await client.get(DEFINITIONS, "", name)
        except NotFound:
            continue
        writers = {
            entry.get("manager", "")
            for entry in found["metadata"].get("managedFields") or ()
            if entry.get("subresource") != "status"
        }
        if writers and not any(writer.startswith(DEFINITION_MANAGERS) for writer in writers):
            group = definition["spec"]["group"]
            raise InputError(
                f"{name} was installed by {', '.join(sorted(writers))}: leave it with --skip-group {group}, "
                "or remove it first"
            )


async def check_single(client: Client, namespace: str) -> None:
    """Refuse a second control plane on the API server, which would lead beside the first one; raises InputError."""
    for binding in (await client.list(BINDINGS, labels=f"{PART_OF}=trimtab")).items:
        for account in binding.get("subjects") or ():
            other = account.get("namespace", namespace)
            if other != namespace and await runs_controllers(client, other, binding["metadata"]["name"]):
                raise InputError(
                    f"Trimtab runs in this cluster already, in the namespace {other}. Two control planes on one API server "
                    f"would both lead: install with -n {other}, or uninstall that one first"
                )


async def runs_controllers(client: Client, namespace: str, name: str) -> bool:
    try:
        spec = (await client.get(DEPLOYMENTS, namespace, name))["spec"]
    except NotFound:
        return False
    return bool(spec["selector"]["matchLabels"].get(COMPONENT) == "controllers" and spec.get("replicas", 1))


async def apply_all(client: KubeClient, objects: Sequence[Raw], *, dry_run: bool) -> None:
    served = {(resource.api_version, resource.kind): resource for resource in await client.resources()}
    new_namespaces: set[str] = set()
    for obj in objects:
        resource = served.get((obj["apiVersion"], obj["kind"]))
        metadata = obj["metadata"]
        title = f"{obj['kind']} {'/'.join(filter(None, (metadata.get('namespace'), metadata['name'])))}"
        if resource is None:
            raise InputError(
                f"the API server does not serve {obj['apiVersion']} {obj['kind']}; it must be 1.30 or newer"
            )
        try:
            before = await find_object(client, resource, obj)
            if dry_run and metadata.get("namespace") in new_namespaces:
                click.echo(f"{title}: would be created")  # the API server cannot check it before its namespace exists
                continue
            after = await client.patch(
                resource,
                metadata.get("namespace", ""),
                metadata["name"],
                obj,
                type="apply",
                manager=MANAGER,
                force=True,
                dry_run=dry_run,
            )
        except ApiError as fault:
            raise InputError(f"{title}: {fault}") from fault
        if dry_run and before is None and obj["kind"] == "Namespace":
            new_namespaces.add(metadata["name"])
        changed = "created" if before is None else "configured" if is_changed(before, after) else "unchanged"
        click.echo(f"{title}: {'would be ' if dry_run and changed != 'unchanged' else ''}{changed}")


async def find_object(client: Client, resource: Resource, obj: Raw) -> Raw | None:
    """The stored object; None if there is none."""
    metadata = obj["metadata"]
    try:
        return await client.get(resource, metadata.get("namespace", ""), metadata["name"])
    except NotFound:
        return None


def is_changed(before: Raw, after: Raw) -> bool:
    """Whether anything but the bookkeeping of the API server differs; a dry run leaves the resourceVersion as it is."""
    return _without_bookkeeping(before) != _without_bookkeeping(after)


def _without_bookkeeping(obj: Raw) -> Raw:
    kept = {key: value for key, value in obj["metadata"].items() if key not in _BOOKKEEPING}
    return {**obj, "metadata": kept}
