"""Checks the permissions of the service account as which the manifests of a Work are applied."""

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Work
from trimtab.api.value import Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import ACCESS, CheckAccess, View
from trimtab.controllers.propagation.works.work_delivery import READ_ONLY, ManifestDelivery, strategy_of
from trimtab.controllers.propagation.works.work_removal import is_orphaned_on_deletion

ACCESS_CHECK_SECONDS = 60.0
"""How long the result of an access review is valid."""
ESCALATION_VERBS = {"Role": "escalate", "ClusterRole": "escalate", "RoleBinding": "bind", "ClusterRoleBinding": "bind"}
"""The verbs that allow granting permissions which the executor does not have."""


def access_checks(work: Work, cluster: Cluster) -> dict[int, CheckAccess]:
    """The permissions that the executor of this Work needs, by the ordinal of the manifest; empty without executor."""
    namespace, _, name = work.metadata.annotations.get(well_known.EXECUTOR, "").partition("/")
    if not name:
        return {}
    user = f"system:serviceaccount:{namespace}:{name}"
    checks: dict[int, CheckAccess] = {}
    for ordinal, manifest in enumerate(work.spec.workload.manifests):
        ref = well_known.ref_without_uid(manifest)
        if strategy_of(manifest) == READ_ONLY:
            verbs = ["get"]
        else:
            verbs = ["create", "update", "patch", "get"]
            verbs += [] if work.spec.preserve_resources_on_deletion or is_orphaned_on_deletion(manifest) else ["delete"]
            verbs += [ESCALATION_VERBS[ref.kind]] if ref.kind in ESCALATION_VERBS else []
        checks[ordinal] = CheckAccess(cluster.name, user, ref, tuple(verbs))
    return checks


def cached_access(check: CheckAccess, view: View) -> bool | None:
    """The result of the last access review; None when there is none or it has expired."""
    known = view.recall(ACCESS, check)
    if known is None or (view.steady_now - known.at).total_seconds() >= ACCESS_CHECK_SECONDS:
        return None
    return known.allowed


def forbidden_delivery(manifest: Raw, view: View) -> ManifestDelivery:
    ref = well_known.ref_without_uid(manifest)
    group = ref.api_version.rpartition("/")[0]
    problem = (
        f"not allowed to apply the resource {group} {ref.kind}, {ref.namespace} {ref.name}, will try again in 1m0s"
    )
    return ManifestDelivery(ref, manifest, None, None, problem)
