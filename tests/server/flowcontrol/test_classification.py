"""Which flow a request belongs to."""

import pytest

from trimtab.server.auth.authorize import Action
from trimtab.server.auth.user import AUTHENTICATED, MASTERS, UNAUTHENTICATED, User
from trimtab.server.flowcontrol.bootstrap import mandatory_objects, suggested_objects
from trimtab.server.flowcontrol.classification import Configuration, level_limits

OBJECTS = [*mandatory_objects(), *suggested_objects()]
SCHEMAS = [obj for obj in OBJECTS if obj["kind"] == "FlowSchema"]
LEVELS = [obj for obj in OBJECTS if obj["kind"] != "FlowSchema"]
GET_POD = Action("get", "", "pods", "", "shop", "web")
UPDATE_LEASE = Action("update", "coordination.k8s.io", "leases", "", "kube-system", "x")
ACCOUNTS = "system:serviceaccounts"


def account(namespace: str) -> User:
    return User(f"system:serviceaccount:{namespace}:a", (ACCOUNTS, f"{ACCOUNTS}:{namespace}", AUTHENTICATED))


@pytest.mark.parametrize(
    ("user", "action", "schema", "level", "distinguisher"),
    [
        (User("admin", (MASTERS, AUTHENTICATED)), GET_POD, "exempt", "exempt", ""),
        (User("ann", (AUTHENTICATED,)), GET_POD, "global-default", "global-default", "ann"),
        (
            User("system:anonymous", (UNAUTHENTICATED,)),
            GET_POD,
            "global-default",
            "global-default",
            "system:anonymous",
        ),
        (User("ann", (AUTHENTICATED,)), Action("get", path="/livez"), "probes", "exempt", ""),
        (User("ann", (AUTHENTICATED,)), Action("get", path="/metrics"), "global-default", "global-default", "ann"),
        (account("shop"), GET_POD, "service-accounts", "workload-low", "system:serviceaccount:shop:a"),
        (account("kube-system"), GET_POD, "kube-system-service-accounts", "workload-high", "shop"),
        (
            account("kube-system"),
            UPDATE_LEASE,
            "workload-leader-election",
            "leader-election",
            "system:serviceaccount:kube-system:a",
        ),
        (
            User("system:node:n", ("system:nodes", AUTHENTICATED)),
            Action("patch", "", "nodes", "status", "", "n"),
            "system-node-high",
            "node-high",
            "system:node:n",
        ),
        (
            User("system:kube-scheduler", (AUTHENTICATED,)),
            UPDATE_LEASE,
            "system-leader-election",
            "leader-election",
            "system:kube-scheduler",
        ),
    ],
)
def test_initial_objects_classify_as_in_kubernetes(
    user: User, action: Action, schema: str, level: str, distinguisher: str
) -> None:
    flow = Configuration(SCHEMAS, LEVELS).classify(user, action)
    assert flow is not None
    assert (flow.schema, flow.level, flow.distinguisher) == (schema, level, distinguisher)


def test_lower_precedence_wins_and_missing_levels_do_not_match() -> None:
    subject = {"kind": "User", "user": {"name": "ann"}}
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["pods"], "namespaces": ["shop"]}

    def schema(name: str, level: str, precedence: int) -> dict:
        rules = [{"subjects": [subject], "resourceRules": [everything]}]
        spec = {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "rules": rules,
        }
        return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec}

    schemas = [schema("later", "workload-low", 300), schema("first", "system", 200), schema("lost", "nowhere", 100)]
    configuration = Configuration([*SCHEMAS, *schemas], LEVELS)
    ann = User("ann", (AUTHENTICATED,))
    flow = configuration.classify(ann, GET_POD)
    assert flow is not None
    assert (flow.schema, flow.schema_uid, flow.distinguisher) == ("first", "uid-first", "")
    other = configuration.classify(ann, GET_POD._replace(namespace="other"))
    assert other is not None
    assert other.schema == "global-default"
    cluster_wide = configuration.classify(ann, GET_POD._replace(namespace=""))
    assert cluster_wide is not None
    assert cluster_wide.schema == "global-default"
    log = configuration.classify(ann, GET_POD._replace(subresource="log"))
    assert log is not None
    assert log.schema == "global-default"


def test_limits_of_a_level_come_from_its_queues() -> None:
    by_name = {raw["metadata"]["name"]: level_limits(raw) for raw in LEVELS}
    assert by_name["exempt"].exempt
    assert not by_name["catch-all"].queues
    low = by_name["workload-low"]
    assert (low.shares, low.lendable_percent, low.flow_queue_length, low.total_queue_length) == (100, 90, 300, 6400)
