"""Lets the impersonator of a member act as the users who may use the proxy of the cluster, and as nobody else.

A cluster that was joined with `karmadactl` has an account of its own for the proxy, named by `spec.impersonatorSecretRef`. Two
Works keep its role in the member: the role lists the subjects to whom ClusterRoleBindings of the control plane grant
`clusters/proxy` of that cluster, or the search proxy.
"""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.access import ClusterRole, ClusterRoleBinding, PolicyRule, Subject
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import Work
from trimtab.api.value import Key, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Effect, RecordEvent, Trigger, View, controller
from trimtab.controllers.propagation.template_references import controller_reference
from trimtab.controllers.propagation.works.direct_works import can_hold_works, direct_work, sync_direct_works

SOURCE = "unified-auth-controller"
IMPERSONATOR = "karmada-impersonator"
RBAC = "rbac.authorization.k8s.io"
GRANTS_OF_A_CLUSTER = ("cluster.karmada.io", "clusters/proxy")
GRANTS_OF_ALL_CLUSTERS = ("search.karmada.io", "proxying/proxy")
RESOURCES = (("User", "users"), ("ServiceAccount", "serviceaccounts"), ("Group", "groups"))
"""The resource that stands for a subject of this kind in a rule for impersonation, in Karmada's order."""


def grants(rule: PolicyRule, group: str, resource: str) -> bool:
    """Whether a rule concerns a subresource; `*/proxy` stands for the proxies of all resources."""
    names = {"*", resource, f"*/{resource.partition('/')[2]}"}
    return not {"*", group}.isdisjoint(rule.api_groups) and not names.isdisjoint(rule.resources)


def opens_proxy(role: ClusterRole, cluster: str) -> bool:
    return any(
        (grants(rule, *GRANTS_OF_A_CLUSTER) and (not rule.resource_names or cluster in rule.resource_names))
        or grants(rule, *GRANTS_OF_ALL_CLUSTERS)
        for rule in role.rules or ()
    )


def clusters_of_role(old: ClusterRole | None, new: ClusterRole | None, view: View) -> Iterable[Key]:
    """The clusters whose proxy the role opens, or opened before the change."""
    rules = [role.rules if role is not None else None for role in (old, new)]
    if rules[0] == rules[1]:
        return
    for cluster in view.all(Cluster):
        if any(role is not None and opens_proxy(role, cluster.name) for role in (old, new)):
            yield key_of(cluster)


def clusters_of_role_binding(
    old: ClusterRoleBinding | None, new: ClusterRoleBinding | None, view: View
) -> Iterable[Key]:
    changed = new or old
    if changed is None or (old is not None and new is not None and old.subjects == new.subjects):
        return
    role = view.get(ClusterRole, "", changed.role_ref.name)
    if role is not None:
        yield from clusters_of_role(None, role, view)


def cluster_of_namespace(old: Namespace | None, new: Namespace | None, view: View) -> Iterable[Key]:
    """The execution namespace of a cluster was created."""
    if old is None and new is not None and (name := well_known.cluster_of(new.name)):
        cluster = view.get(Cluster, "", name)
        if cluster is not None:
            yield key_of(cluster)


def reference_changed(old: Cluster | None, new: Cluster) -> bool:
    return old is None or old.spec.impersonator_secret_ref != new.spec.impersonator_secret_ref


@controller(
    Cluster,
    writes=["Work"],
    predicate=reference_changed,
    triggers=[
        Trigger(ClusterRole, clusters_of_role),
        Trigger(ClusterRoleBinding, clusters_of_role_binding),
        Trigger(Namespace, cluster_of_namespace),
    ],
)
def impersonation(cluster: Cluster, view: View) -> Iterator[Effect]:
    reference = cluster.spec.impersonator_secret_ref
    if cluster.metadata.deletion_timestamp is not None or not can_hold_works(cluster.name, view):
        return
    role, role_binding = (
        owned_work(manifest, cluster)
        for manifest in (
            role_manifest(subjects_of_proxy(cluster.name, view)),
            role_binding_manifest(reference.namespace if reference is not None else ""),
        )
    )
    found = [view.get(Work, work.namespace, work.name) for work in (role, role_binding)]
    wanted = (role, role_binding) if reference is not None else ()
    changes = list(sync_direct_works(wanted, [work for work in found if work is not None]))
    yield from changes
    if changes:
        text = "Sync impersonation config succeed."
        yield RecordEvent(well_known.ref_of(cluster), "SyncImpersonationConfigSucceed", text, SOURCE, routine=True)


def subjects_of_proxy(cluster: str, view: View) -> Iterator[Subject]:
    """To whom ClusterRoleBindings grant the proxy of a cluster."""
    roles = {role.name for role in view.all(ClusterRole) if opens_proxy(role, cluster)}
    for granted in view.all(ClusterRoleBinding) if roles else ():
        if granted.role_ref.kind == "ClusterRole" and granted.role_ref.name in roles:
            yield from granted.subjects


def role_manifest(subjects: Iterable[Subject]) -> Raw:
    names: dict[str, set[str]] = {kind: set() for kind, _ in RESOURCES}
    for subject in subjects:
        names.setdefault(subject.kind, set()).add(subject.name)
    rules = [
        {"verbs": ["impersonate"], "apiGroups": [""], "resources": [resource], "resourceNames": sorted(names[kind])}
        for kind, resource in RESOURCES
        if names[kind]
    ]
    return {**_manifest("ClusterRole"), "rules": rules}


def role_binding_manifest(namespace: str) -> Raw:
    return {
        **_manifest("ClusterRoleBinding"),
        "subjects": [{"kind": "ServiceAccount", "name": IMPERSONATOR, "namespace": namespace}],
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": IMPERSONATOR},
    }


def _manifest(kind: str) -> Raw:
    metadata = {"name": IMPERSONATOR, "labels": {well_known.SYSTEM: "true"}}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata}


def owned_work(manifest: Raw, cluster: Cluster) -> Work:
    work = direct_work(manifest, cluster.name, {})
    owner = controller_reference(well_known.ref_of(cluster))
    return work.but(metadata=work.metadata.but(owner_references=(owner,)))
