"""RBAC: random roles, aggregation, labels, bindings and users against an independent evaluator.

After every write the server allows exactly what the evaluator computes, and no write of a user gives anybody a right
that neither that person nor the writer had, unless the writer holds `bind` or `escalate`.
"""

from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties.hypothesis_settings import example_settings
from properties.rbac_oracle import (
    NAMESPACES,
    PATH_RIGHTS,
    RBAC,
    RESOURCE_RIGHTS,
    Listed,
    Right,
    is_special,
    rights_of,
)
from server.asgi import ADMIN, AsgiClient, with_asgi_client
from trimtab.server.admission.rbac_escalation import RbacEscalation
from trimtab.server.auth.authorize import Action
from trimtab.server.auth.user import AUTHENTICATED, User

BASE = f"/apis/{RBAC}/v1"
USERS = ("alice", "bob", "carol")
ROLE_NAMES = ("r0", "r1", "r2", "r3")
PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
MAY_WRITE_ROLES = {
    "verbs": ["get", "list", "create", "update", "patch", "delete", "deletecollection"],
    "apiGroups": [RBAC],
    "resources": ["clusterroles", "roles", "clusterrolebindings", "rolebindings"],
}


def some(*values: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)


def rarely(value: str, usual: list[str]) -> st.SearchStrategy[list[str]]:
    return st.sampled_from([*usual * 4, value]).map(lambda found: [found])


resource_rules = st.fixed_dictionaries(
    {
        "verbs": st.one_of(rarely("*", ["get"]), some("get", "list", "create")),
        "apiGroups": rarely("*", [""]),
        "resources": st.one_of(rarely("*", ["configmaps", "secrets"]), some("configmaps", "pods/log", "*/log")),
        "resourceNames": st.sampled_from([[], [], ["x"], ["x", "r0"]]),
    }
)
special_rules = st.builds(
    lambda verb, resource, names: {
        "verbs": [verb],
        "apiGroups": [RBAC],
        "resources": [resource],
        "resourceNames": names,
    },
    st.sampled_from(["bind", "escalate"]),
    st.sampled_from(["clusterroles", "roles"]),
    st.one_of(st.just([]), some(*ROLE_NAMES)),
)
path_rules = st.fixed_dictionaries(
    {"verbs": some("get", "*"), "nonResourceURLs": some("/metrics", "/metrics/*", "/metrics*", "*")}
)
labels = st.fixed_dictionaries({}, optional={"to": st.sampled_from(["one", "two"]), "team": st.just("core")})
_NOT_OURS = {"key": "kubernetes.io/bootstrapping", "operator": "DoesNotExist"}
selectors = st.sampled_from(
    [
        {"matchLabels": {"to": "one"}},
        {"matchLabels": {"to": "two"}},
        {"matchLabels": {"to": "one", "team": "core"}},
        {"matchExpressions": [{"key": "to", "operator": "NotIn", "values": ["one"]}, _NOT_OURS]},
        {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}, _NOT_OURS]},
        {"matchLabels": {f"{RBAC}/aggregate-to-view": "true"}},
    ]
)


class Write(NamedTuple):
    """One write; which of its parts are used depends on what it writes."""

    actor: str
    way: str
    """`create`, `replace`, `delete`, `delete all` or a kind of patch."""
    what: str
    """`role`, `namespaced role`, `binding` or `namespaced binding`."""
    name: str
    rules: list[dict] | None = None
    """None in a patch that leaves the rules as they are."""
    labels: dict[str, str] | None = None
    selectors: list[dict] | None = None
    role: str = ""
    role_kind: str = "ClusterRole"
    subjects: list[str] | None = None
    namespace: str = "a"
    dry_run: bool = False


def _write(*args: Any, **parts: Any) -> Write:
    return Write(*args, **parts)  # a function without annotations, so that no further parts are drawn


def writes(rules: st.SearchStrategy[dict]) -> st.SearchStrategy[Write]:
    """Writes of users, most of which make sense on the prepared objects."""
    actor, name = st.sampled_from(USERS), st.sampled_from(ROLE_NAMES)
    namespace, dry = st.sampled_from(NAMESPACES[1:]), st.sampled_from([False] * 5 + [True])
    chosen = st.lists(rules, max_size=2)
    patches = st.sampled_from(list(PATCH_TYPES))
    ways = st.sampled_from(["create", "replace", *PATCH_TYPES])
    role, subjects = st.sampled_from([*ROLE_NAMES, "view", "absent"]), some(*USERS)
    bindings = st.sampled_from(["binding", "namespaced binding"])
    kinds = st.sampled_from(["ClusterRole", "ClusterRole", "Role"])
    binding_ways = st.sampled_from(["create", "create", "merge", "json", "apply"])
    erased = st.sampled_from(["role", "binding", "namespaced role", "namespaced binding"])
    return st.one_of(
        st.builds(_write, actor, patches, st.just("role"), name, labels=labels, dry_run=dry),
        st.builds(
            _write, actor, ways, st.just("role"), name, st.just([]), labels, st.lists(selectors, min_size=1, max_size=2)
        ),
        st.builds(_write, actor, ways, st.just("role"), name, chosen, labels, dry_run=dry),
        st.builds(_write, actor, ways, st.just("namespaced role"), name, chosen, labels, namespace=namespace),
        st.builds(
            _write,
            actor,
            binding_ways,
            bindings,
            st.sampled_from(["b0", "b1", "b2"]),
            role=role,
            role_kind=kinds,
            subjects=subjects,
            namespace=namespace,
            dry_run=dry,
        ),
        st.builds(_write, actor, st.sampled_from(["delete", "delete", "delete", "delete all"]), erased, name),
    )


class Prepared(NamedTuple):
    """A ClusterRole that the administrator made, and who holds it."""

    rules: list[dict]
    labels: dict[str, str]
    selectors: list[dict] | None
    holders: list[str]


def prepared_roles(rules: st.SearchStrategy[dict]) -> st.SearchStrategy[list[Prepared]]:
    plain = st.builds(Prepared, st.lists(rules, min_size=1, max_size=2), labels, st.none(), st.just([]))
    aggregating = st.lists(selectors, min_size=1, max_size=1)
    held = st.builds(Prepared, st.just([]), labels, aggregating, some(*USERS))
    return st.lists(st.one_of(plain, held), min_size=len(ROLE_NAMES), max_size=len(ROLE_NAMES))


class Model:
    """Carries out writes and checks after each of them."""

    def __init__(self, client: AsgiClient) -> None:
        self._client = client
        self._users = {name: User(name, (AUTHENTICATED,)) for name in USERS}
        self.rights: dict[str, frozenset[Right]] = {}
        self._listed: Listed | None = None
        self.allowed = 0
        """Writes of users that the server allowed."""

    async def _list(self, resource: str) -> list[dict]:
        found: list[dict] = (await self._client("GET", f"{BASE}/{resource}")).json()["items"]
        return found

    async def observe(self) -> dict[str, frozenset[Right]]:
        """The rights of every user by the evaluator, after comparing them with the server's decisions."""
        names = ("clusterroles", "roles", "clusterrolebindings", "rolebindings")
        listed = Listed(*[await self._list(name) for name in names])
        if listed == self._listed:
            return self.rights
        self._listed = listed
        rights = {name: rights_of(name, listed) for name in USERS}
        for name, user in self._users.items():
            for right in (*RESOURCE_RIGHTS, *PATH_RIGHTS):
                resource, _, subresource = right.resource.partition("/")
                action = Action(right.verb, right.group, resource, subresource, right.namespace, right.name, right.path)
                decision = self._client.server.authorizer.allows(user, action)
                assert decision == (right in rights[name]), (name, right)
        return rights

    async def carry_out(self, write: Write, user: User | None = None) -> int:
        method, path, body, media = _request_of(write)
        query = "&".join(
            filter(None, ["dryRun=All" * write.dry_run, "fieldManager=m&force=true" * (write.way == "apply")])
        )
        actor = user or self._users[write.actor]
        response = await self._client(
            method, f"{path}?{query}" if query else path, body, user=actor, content_type=media
        )
        assert response.status < 500, response.body
        return response.status

    async def check(self, write: Write) -> None:
        """Carry out the write of a user and check that nobody gained what he may not give."""
        before = self.rights
        status = await self.carry_out(write)
        self.rights = after = await self.observe()
        if status >= 300 or write.dry_run:
            assert after == before, "a refused or dry-run write changed rights"
            return
        self.allowed += 1
        if any(is_special(right) for right in before[write.actor]):
            return
        for name in USERS:
            gained = after[name] - before[name] - before[write.actor]
            assert not gained, f"{write} gave {name} {sorted(gained)[:5]}"


def _path_of(write: Write) -> str:
    resource = {
        "role": "clusterroles",
        "binding": "clusterrolebindings",
        "namespaced role": f"namespaces/{write.namespace}/roles",
        "namespaced binding": f"namespaces/{write.namespace}/rolebindings",
    }[write.what]
    return f"{BASE}/{resource}"


def _object_of(write: Write) -> dict:
    metadata: dict = {"name": write.name, "labels": write.labels or {}}
    head = {"apiVersion": f"{RBAC}/v1", "kind": _kind_of(write), "metadata": metadata}
    if "role" in write.what:
        namespaced = write.what != "role"
        rules = [rule for rule in write.rules or () if not (namespaced and "nonResourceURLs" in rule)]
        aggregation = {"aggregationRule": {"clusterRoleSelectors": write.selectors}} if write.selectors else {}
        return {**head, **({} if write.rules is None else {"rules": rules}), **({} if namespaced else aggregation)}
    kind = "ClusterRole" if write.what == "binding" else write.role_kind
    return {
        **head,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": write.role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": name} for name in write.subjects or ()],
    }


def _kind_of(write: Write) -> str:
    kind = "Role" if "role" in write.what else "RoleBinding"
    return kind if write.what.startswith("namespaced") else f"Cluster{kind}"


def _request_of(write: Write) -> tuple[str, str, bytes, str]:
    path, obj = _path_of(write), _object_of(write)
    media = "application/json"
    if write.way == "create":
        return "POST", path, orjson.dumps(obj), media
    if write.way == "delete all":
        return "DELETE", path, b"", media
    path = f"{path}/{write.name}"
    if write.way == "delete":
        return "DELETE", path, b"", media
    if write.way == "replace":
        return "PUT", path, orjson.dumps(obj), media
    if write.way == "apply":
        return "PATCH", path, orjson.dumps(obj), PATCH_TYPES["apply"]
    part = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "roleRef", "metadata")}
    given_labels = write.labels or {}
    if write.way == "json":
        values = [(f"/{key}", value) for key, value in part.items()] + [("/metadata/labels", given_labels)]
        body: object = [{"op": "add", "path": at, "value": value} for at, value in values]
    else:
        body = {**part, "metadata": {"labels": {key: given_labels.get(key) for key in ("to", "team")}}}
    return "PATCH", path, orjson.dumps(body), PATCH_TYPES[write.way]


async def run_model(
    client: AsgiClient, prepared: list[Prepared], granted: list[list[dict]], sequence: list[Write]
) -> Model:
    """Let the administrator prepare roles and grant every user the writing of roles and some rules, then check."""
    for namespace in NAMESPACES[1:]:
        await client("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    own = [Prepared([MAY_WRITE_ROLES, *rules], {}, None, [user]) for user, rules in zip(USERS, granted, strict=True)]
    names = [*ROLE_NAMES, *(f"own-{user}" for user in USERS)]
    model = Model(client)
    for name, role in zip(names, [*prepared, *own], strict=True):
        made = Write("", "create", "role", name, role.rules, role.labels, role.selectors)
        bound = Write("", "create", "binding", name, role=name, subjects=role.holders)
        assert await model.carry_out(made, ADMIN) == 201
        assert await model.carry_out(bound, ADMIN) == 201
    model.rights = await model.observe()
    for write in sequence:
        await model.check(write)
    return model


rules_without_special = st.one_of(resource_rules, resource_rules, path_rules)
any_rules = st.one_of(resource_rules, path_rules, special_rules)


def grants(rules: st.SearchStrategy[dict]) -> st.SearchStrategy[list[list[dict]]]:
    return st.lists(st.lists(rules, max_size=1), min_size=len(USERS), max_size=len(USERS))


@example_settings(12, thorough=30)
@given(
    prepared_roles(rules_without_special),
    grants(resource_rules),
    st.lists(writes(rules_without_special), min_size=10, max_size=20),
)
def test_no_allowed_write_gives_a_right_that_nobody_held(
    prepared: list[Prepared], granted: list[list[dict]], sequence: list[Write]
) -> None:
    with_asgi_client(lambda client: run_model(client, prepared, granted, sequence), garbage_collection=False)


@example_settings(5, thorough=10)
@given(prepared_roles(any_rules), grants(any_rules), st.lists(writes(any_rules), min_size=10, max_size=20))
def test_users_with_escalate_or_bind_are_the_only_exception(
    prepared: list[Prepared], granted: list[list[dict]], sequence: list[Write]
) -> None:
    with_asgi_client(lambda client: run_model(client, prepared, granted, sequence), garbage_collection=False)


SECRETS = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}
PREPARED = [
    Prepared([SECRETS], {"to": "one"}, None, []),
    Prepared([], {}, [{"matchLabels": {"to": "two"}}], ["alice"]),
    Prepared([], {}, [{"matchLabels": {"to": "one"}}], []),
    Prepared([], {}, None, ["alice"]),
]
ATTACKS = {
    "an aggregation rule": Write("alice", "merge", "role", "r3", [], {}, [{"matchLabels": {"to": "one"}}]),
    "a binding": Write("alice", "create", "binding", "b0", role="r0", subjects=["alice"]),
    "a namespaced binding": Write("alice", "create", "namespaced binding", "b0", role="r0", subjects=["alice"]),
    "a binding of an aggregate": Write("alice", "create", "binding", "b0", role="r2", subjects=["alice"]),
    "a label": Write("alice", "merge", "role", "r0", labels={"to": "two"}),
    "rules": Write("alice", "apply", "role", "r3", [SECRETS]),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_model_notices_a_missing_rule(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt() -> Model:
        return with_asgi_client(lambda client: run_model(client, PREPARED, [[], [], []], [ATTACKS[attack]]))

    assert attempt().allowed == 0

    async def allow(self: RbacEscalation, *_: object) -> None:
        return None

    monkeypatch.setattr(RbacEscalation, "validate", allow)
    with pytest.raises(AssertionError, match="gave alice"):
        attempt()
