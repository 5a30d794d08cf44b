"""A console without a server: objects are put into its model, users are names with rights, requests are calls."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from builders import binding, cluster, status_item

from trimtab.api.kinds.cluster import NodeSummary, ResourceSummary
from trimtab.api.kinds.disruption import (
    DisruptionBudget,
    DisruptionBudgetSpec,
    DisruptionRate,
    Move,
    MovedObject,
    MoveSpec,
    MoveStatus,
    MoveTarget,
)
from trimtab.api.kinds.policy import Placement
from trimtab.api.kinds.rebalancer import ObservedWorkload, RebalancerStatus, WorkloadRebalancer, WorkloadReference
from trimtab.api.kinds.work import HeldReplicas
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Meta
from trimtab.console.application import Console
from trimtab.console.page import Services
from trimtab.console.sessions import COOKIE, Session
from trimtab.runtime.declarations import load_declarations
from trimtab.server.auth.authorize import Action

NOW = datetime(2026, 11, 16, 16, 14, 53, tzinfo=UTC)
HOST = "console.example"
DRAIN = "/clusters/web-c0/drain"


class FakeAuthority:
    """Users are known by their tokens; `rights` says what each may do."""

    def __init__(self, rights: Mapping[str, Any]) -> None:
        self._rights = rights
        self.clients: list[Any] = []

    async def identify(self, token: str) -> str | None:
        return token if token in self._rights else None

    async def allows(self, session: Session, actions: Sequence[Action]) -> list[bool]:
        return [self._rights[session.user](action) for action in actions]

    def client(self, session: Session) -> Any:
        return RecordingClient(self.clients, session.user)

    async def close(self) -> None:
        """There is nothing to close."""


class RecordingClient:
    """Records the writes of actions."""

    def __init__(self, writes: list[Any], user: str) -> None:
        self._writes = writes
        self._user = user

    async def get(self, resource: Any, namespace: str, name: str) -> Any:
        return {"metadata": {"name": name, "resourceVersion": "7"}, "spec": {}}

    async def patch(self, resource: Any, namespace: str, name: str, patch: Any, **options: Any) -> Any:
        self._writes.append((self._user, "patch", resource.plural, name, patch, options))
        return {}

    async def create(self, resource: Any, obj: Any, **options: Any) -> Any:
        self._writes.append((self._user, "create", resource.plural, obj["metadata"]["name"], obj, options))
        return obj


def may_do_all(_: Action) -> bool:
    return True


def may_do_nothing(_: Action) -> bool:
    return False


def reads_only_shop(action: Action) -> bool:
    return action.verb == "list" and (action.namespace == "shop" or action.resource == "clusters")


class Answer(NamedTuple):
    code: int
    headers: dict[str, str]
    body: bytes
    cookies: tuple[str, ...]

    @property
    def text(self) -> str:
        return self.body.decode()


def new_console(**services: Any) -> Console:
    load_declarations()
    rights = {"admin": may_do_all, "viewer": reads_only_shop, "stranger": may_do_nothing}
    return Console(FakeAuthority(rights), lambda: NOW, services=Services(**services))


def fill(console: Console, word: str = "web") -> None:
    """A small fleet with something of every kind; `word` is part of every name and text."""
    model = console.model
    summary = ResourceSummary(allocatable={"cpu": "16", "memory": "64Gi"}, allocated={"cpu": "4", "memory": "8Gi"})
    for number, region in enumerate(("eu", "eu", "us")):
        found = cluster(f"{word}-c{number}", ready="False" if number == 2 else "True", region=region)
        status = found.status.but(resource_summary=summary, node_summary=NodeSummary(total_num=3, ready_num=3))
        model.put_cluster(found.name, found.but(status=status))
    for namespace in ("shop", "hidden"):
        put_workload(console, namespace, word)
    model.put_move("shop/m1", one_move(word))
    model.put_budget(
        f"shop/{word}",
        DisruptionBudget(
            metadata=Meta(name=word, namespace="shop"),
            spec=DisruptionBudgetSpec(
                target="Workloads", selector=LabelSelector(), rate=DisruptionRate(disruptions=2, period="1h")
            ),
        ),
    )
    model.put_rebalance(word, rebalance_job(word))


def one_move(word: str, replicas: int = 2) -> Move:
    """A move in progress from the first cluster to the second."""
    return Move(
        metadata=Meta(name="m1", namespace="shop", creation_timestamp=NOW),
        spec=MoveSpec(
            object=MovedObject(api_version="apps/v1", kind="Deployment", namespace="shop", name=word),
            cause="Rebalance",
            from_=f"{word}-c0",
            to=(MoveTarget(name=f"{word}-c1", replicas=replicas),),
            replicas=replicas,
            message=word,
        ),
        status=MoveStatus(started=NOW),
    )


def rebalance_job(word: str) -> WorkloadRebalancer:
    reference = WorkloadReference(api_version="apps/v1", kind="Deployment", namespace="shop", name=word)
    return WorkloadRebalancer(
        metadata=Meta(name=word, creation_timestamp=NOW, annotations={"trimtab.dev/requested-by": word}),
        status=RebalancerStatus(
            observed_workloads=(ObservedWorkload(workload=reference, phase="Moving", message=word),)
        ),
    )


def put_workload(console: Console, namespace: str, word: str) -> None:
    one = binding(word, clusters={f"{word}-c0": 2, f"{word}-c1": 1})
    spec = one.spec.but(
        replicas=3,
        placement=Placement(),
        resource=one.spec.resource.but(name=word, namespace=namespace, kind="Deployment"),
    )
    status = one.status.but(
        aggregated_status=(status_item(f"{word}-c0", status={"readyReplicas": 2}, applied=True),),
        holds=(HeldReplicas(cluster=f"{word}-c0", replicas=1, until=NOW, reason=word),),
    )
    one = one.but(metadata=one.metadata.but(namespace=namespace, name=f"{word}-deployment"), spec=spec, status=status)
    console.model.labels_of = lambda _: {"team": word}
    console.model.put_binding(one, None)


async def call(
    console: Console,
    path: str,
    *,
    method: str = "GET",
    form: Mapping[str, str] | None = None,
    cookie: str = "",
    **headers: str,
) -> Answer:
    """Send one request; `path` is below `/console`."""
    body = urlencode(form).encode() if form is not None else b""
    sent = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]
    address, _, query = path.partition("?")
    lines = {
        "host": HOST,
        "origin": f"https://{HOST}",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    if cookie:
        lines["cookie"] = f"{COOKIE}={cookie}"
    scope = {
        "type": "http",
        "method": method,
        "path": address,
        "raw_path": address.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in lines.items()],
    }
    messages: list[Any] = []

    async def receive() -> Any:
        return sent.pop(0) if sent else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        messages.append(message)

    await console(scope, receive, send)
    start = messages[0]
    pairs = [(name.decode(), value.decode()) for name, value in start["headers"]]
    content = b"".join(message.get("body", b"") for message in messages[1:])
    return Answer(start["status"], dict(pairs), content, tuple(value for name, value in pairs if name == "set-cookie"))


def signed_in(console: Console, user: str = "admin") -> tuple[str, Session]:
    cookie = console.sessions.open(user, user)
    session = console.sessions.find(cookie)
    assert session is not None
    return cookie, session
