"""Which rights the controllers need on the API server, and which of them they lack.

Whoever asks is seldom the account of the controllers. Where the chart has installed them, the API server is asked about the account
of their Deployment; elsewhere, or when this user may not ask that, about this user.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.errors import ApiError, InputError
from trimtab.runtime.propagatable import ALL_KINDS, KindSelection, parse_kinds

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
_GROUP = "authorization.k8s.io"
OWN_REVIEWS = Resource(_GROUP, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False)
REVIEWS = Resource(_GROUP, "v1", "subjectaccessreviews", "SubjectAccessReview", False)
KINDS_FLAG = "--kinds="
CHART_LABEL = "app.kubernetes.io/name=trimtab"


class Right(NamedTuple):
    """A right that the controllers need on the API server."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    """Empty: in all namespaces."""


class Subject(NamedTuple):
    """An account of controllers, and the kinds that they propagate."""

    namespace: str
    account: str
    kinds: KindSelection

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.account}"

    @property
    def groups(self) -> list[str]:
        return ["system:serviceaccounts", f"system:serviceaccounts:{self.namespace}", "system:authenticated"]


class Denial(NamedTuple):
    """The rights that somebody lacks."""

    account: str
    """`namespace/name` of the account of controllers; empty for the user who asks."""
    rights: tuple[Right, ...]


def needed_rights(kinds: KindSelection, lease_namespace: str) -> Iterator[Right]:
    for group, resources in kinds.by_group():
        for resource in resources:
            yield from (Right(verb, group, resource) for verb in ("list", "watch", "update", "patch"))
    for verb in ("list", "update", "create", "delete"):
        yield Right(verb, "work.karmada.io", "works")
    yield Right("list", "", "secrets")
    yield Right("create", "", "namespaces")
    yield Right("create", "", "events")
    for verb in ("create", "update"):
        yield Right(verb, "coordination.k8s.io", "leases", lease_namespace)


async def find_denials(client: Client, namespaces: Sequence[str]) -> list[Denial]:
    """Who lacks rights; one entry without rights for each account, or for this user, that has all."""
    denials = []
    for subject in await find_subjects(client, namespaces):
        wanted = needed_rights(subject.kinds, subject.namespace)
        try:
            denied = [right for right in wanted if not await is_allowed(client, right, subject)]
        except ApiError:  # this user may not ask about others
            continue
        denials.append(Denial(f"{subject.namespace}/{subject.account}", tuple(denied)))
    if denials:
        return denials
    return [Denial("", await _denied_to_this_user(client))]


async def _denied_to_this_user(client: Client) -> tuple[Right, ...]:
    wanted = tuple(needed_rights(ALL_KINDS, ""))
    try:
        return tuple([right for right in wanted if not await is_allowed(client, right)])
    except ApiError:
        return wanted


async def find_subjects(client: Client, namespaces: Sequence[str]) -> list[Subject]:
    """The accounts of the Deployments of controllers; in these namespaces alone if this user may not list all."""
    for places in ([""], namespaces):
        try:
            lists = [await client.list(DEPLOYMENTS, place, labels=CHART_LABEL) for place in places]
        except ApiError:
            continue
        subjects = [_subject_of(one) for found in lists for one in found.items]
        return list(dict.fromkeys(subject for subject in subjects if subject is not None))
    return []


def _subject_of(deployment: Raw) -> Subject | None:
    """The account of a Deployment that runs `trimtab controllers`; None for others, such as the webhook."""
    pod = deployment["spec"]["template"]["spec"]
    arguments = pod["containers"][0].get("args") or []
    if "controllers" not in arguments[:1] or "--roles=pods" in arguments:
        return None
    named = [flag.removeprefix(KINDS_FLAG) for flag in arguments if flag.startswith(KINDS_FLAG)]
    try:
        kinds = parse_kinds(named[-1]) if named else ALL_KINDS
    except InputError:
        return None  # its pods do not start, and say why
    return Subject(deployment["metadata"]["namespace"], pod.get("serviceAccountName") or "default", kinds)


async def is_allowed(client: Client, right: Right, subject: Subject | None = None) -> bool:
    """Raises `ApiError` when this user may not ask for the subject."""
    resource = REVIEWS if subject else OWN_REVIEWS
    spec: Raw = {"resourceAttributes": {key: value for key, value in right._asdict().items() if value}}
    if subject is not None:
        spec |= {"user": subject.user, "groups": subject.groups}
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": spec}
    return bool((await client.create(resource, body))["status"]["allowed"])
