"""Impersonation: a request names the user, groups, uid and extra values as which it wants to act."""

from collections.abc import Iterator

from trimtab.errors import BadRequest
from trimtab.server.auth.authorize import Action, Authorizer
from trimtab.server.auth.user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User
from trimtab.server.request.messages import Request

_GROUP = "authentication.k8s.io"
_ACCOUNT_PREFIX = "system:serviceaccount:"


def wants_impersonation(request: Request) -> bool:
    """Whether a request acts as somebody else; raises when it does not say as whom."""
    if request.headers.get("impersonate-user"):
        return True
    uid = request.headers.get("impersonate-uid")
    if not (request.impersonate_groups or request.impersonate_extra or uid):
        return False
    headers = {
        "Impersonate-Group": request.impersonate_groups,
        "Impersonate-Uid": uid,
        "Impersonate-Extra-*": request.impersonate_extra,
    }
    given = ", ".join(name for name, value in headers.items() if value)
    raise BadRequest(f"{given} without Impersonate-User: name the user to act as")


def may_impersonate(authorizer: Authorizer, user: User, request: Request) -> bool:
    """Whether the user may act as the user, with every group, the uid and every extra value that a request names."""
    return all(authorizer.allows(user, action) for action in _required_actions(request))


def _required_actions(request: Request) -> Iterator[Action]:
    name = request.headers["impersonate-user"]
    if account := _account_of(name):
        yield Action("impersonate", "", "serviceaccounts", "", *account)
    else:
        yield Action("impersonate", "", "users", name=name)
    for group in request.impersonate_groups:
        yield Action("impersonate", "", "groups", name=group)
    if uid := request.headers.get("impersonate-uid"):
        yield Action("impersonate", _GROUP, "uids", name=uid)
    for key, value in request.impersonate_extra:
        yield Action("impersonate", _GROUP, "userextras", key, name=value)


def _account_of(name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account with this user name; None for other users."""
    if not name.startswith(_ACCOUNT_PREFIX):
        return None
    namespace, _, account = name.removeprefix(_ACCOUNT_PREFIX).partition(":")
    return (namespace, account) if namespace and account and ":" not in account else None


def impersonated_user(request: Request) -> User:
    """The user as which a request acts."""
    name, groups = request.headers["impersonate-user"], list(request.impersonate_groups)
    if not groups and (account := _account_of(name)):
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{account[0]}"]
    if name == ANONYMOUS:
        groups += [UNAUTHENTICATED] if UNAUTHENTICATED not in groups else []
    elif AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups.append(AUTHENTICATED)
    extra: dict[str, tuple[str, ...]] = {}
    for key, value in request.impersonate_extra:
        extra[key] = (*extra.get(key, ()), value)
    return User(name, tuple(groups), request.headers.get("impersonate-uid", ""), tuple(extra.items()))
