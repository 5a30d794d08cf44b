"""The rights of the control plane in a member: what it observes, the kinds it propagates, and nothing that gives it more.

RBAC allows; it cannot leave out. A role for `*` therefore includes `pods/exec`, `nodes/proxy` and `serviceaccounts/token`, with
which its holder runs commands in every pod and becomes every service account. So kinds are named, without their subresources. A
cluster that is to take other kinds allows them by name, and one that is to take roles and bindings allows that as well: who writes
roles that grant more than he has (`escalate`, `bind`) has every right there is.
"""

from typing import NamedTuple

from trimtab.api.value import Raw
from trimtab.runtime.propagatable import ALL_KINDS, DEFAULT, KindSelection

RBAC = "rbac.authorization.k8s.io"
READ = ("get", "list", "watch")
WRITE = (*READ, "create", "update", "patch", "delete")
ROLE_KINDS = ("clusterrolebindings", "clusterroles", "rolebindings", "roles")
OBSERVING_RULES: tuple[Raw, ...] = (
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": list(WRITE)},
    # Capacity, and what pods use.
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": list(READ)},
    {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes", "pods"], "verbs": ["get", "list"]},
    # A namespace that has objects of others is not deleted. These kinds are only listed for that.
    {"apiGroups": [""], "resources": ["podtemplates", "replicationcontrollers"], "verbs": ["list"]},
    {"apiGroups": ["apps"], "resources": ["controllerrevisions"], "verbs": ["list"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]},
    {"apiGroups": [RBAC], "resources": ["rolebindings", "roles"], "verbs": ["list"]},
    {"apiGroups": ["storage.k8s.io"], "resources": ["csistoragecapacities"], "verbs": ["list"]},
    # Whether the executor of a ManifestWork may do what it asks for.
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    {
        "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/readyz", "/version"],
        "verbs": ["get"],
    },
)
"""What the control plane needs besides the kinds that it propagates."""
RBAC_RULES: tuple[Raw, ...] = (
    {"apiGroups": [RBAC], "resources": list(ROLE_KINDS), "verbs": list(WRITE)},
    # Without these two verbs only roles whose rights the account has itself could be propagated.
    {"apiGroups": [RBAC], "resources": ["clusterroles", "roles"], "verbs": ["bind", "escalate"]},
)
PROXY_RULES: tuple[Raw, ...] = (
    # Requests through the cluster proxy are made as the user who sent them.
    {"apiGroups": [""], "resources": ["users", "groups", "serviceaccounts"], "verbs": ["impersonate"]},
    {"apiGroups": ["authentication.k8s.io"], "resources": ["uids", "userextras/*"], "verbs": ["impersonate"]},
)
"""Further rights of a control plane whose API server serves the cluster proxy; a kube-apiserver does not."""


class MemberRights(NamedTuple):
    """What the control plane may propagate to a member."""

    kinds: KindSelection = KindSelection((DEFAULT,))
    allow_rbac: bool = False
    """Also roles and bindings, whatever they grant."""

    def rules(self) -> list[Raw]:
        """The rules of the ClusterRole."""
        kinds = (
            {"apiGroups": [group], "resources": resources, "verbs": list(WRITE)}
            for group, resources in self.kinds.by_group()
        )
        return [*OBSERVING_RULES, *kinds, *(RBAC_RULES if self.allow_rbac else ())]


DEFAULT_RIGHTS = MemberRights()
ALL_RIGHTS = MemberRights(ALL_KINDS, allow_rbac=True)
"""For members that belong to the control plane itself."""


def account_rules(account: str) -> list[Raw]:
    """The rules of a Role in the namespace of an account: it renews its own token, and deletes itself when it leaves."""
    return [
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [account], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": [account], "verbs": ["delete"]},
    ]


def is_forbidden(message: str) -> bool:
    """Whether a message of a Work says that the role in the member forbids something."""
    return " is forbidden: User " in message


def describe_remedy(cluster: str) -> str:
    """How to allow what the role in this cluster forbids."""
    return (
        f"allow the kind in the member: `trimtab join {cluster} --kinds default,PLURAL.GROUP --print`, applied there with "
        "`kubectl apply -f -`; roles and bindings need --allow-rbac"
    )
