"""Recorded exchanges with a real kube-apiserver hold against ours.

An exchange holds when status code, content type, the reason, message and causes of a Status, the set of keys
(recursively), table columns and the order and types of watch events agree. What an exchange needs to have happened
before is rebuilt from the recording itself: the objects it speaks of are put into the store as last seen.
"""

import asyncio
import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import pytest

from trimtab.api import protobuf
from trimtab.clock import LoopClock, run_virtually
from trimtab.errors import BadRequest
from trimtab.server.apiserver import ApiServer, Settings
from trimtab.server.auth.user import AUTHENTICATED, MASTERS, User
from trimtab.server.http.routes import Target, resolve, truthy, verb_of
from trimtab.server.registry.resources import Served
from trimtab.server.storage.object_codec import pack, unpack
from trimtab.store.store import Store
from trimtab.store.txn import Delete, Put

WIRE = Path(__file__).parent / "wire" / "transcripts"
FILES = sorted(path.name.removesuffix(".jsonl.gz") for path in WIRE.glob("*.jsonl.gz"))
USERS = {
    "<admintoken>": User("admin", (MASTERS, AUTHENTICATED)),
    "<alicetoken>": User("alice", (AUTHENTICATED,)),
}
FUTURE = 10**7
"""Recorded versions beyond this one were meant to lie in the future."""
MASKS = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r'(resourceVersion\\*":\\*")\d+'), r"\1N"),
    (re.compile(r"\b\d{3,}\b"), "N"),
]
UNMODELLED = {"shardInfo"}
"""Keys of the recorded (1.37) server that a 1.32 server does not have."""


TEMPLATE = {"containers": [{"name": "c", "image": "nginx"}]}
INVENTED = {
    "configmaps": {"data": {"k": "v"}},
    "pods": {"spec": {**TEMPLATE, "nodeName": "n1"}, "status": {"phase": "Running"}},
    "deployments.apps": {
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": TEMPLATE},
        },
        "status": {},
    },
}
"""What an object holds that was made by a step outside the recording, and of which only the existence matters."""


class Exchange(NamedTuple):
    file: str
    id: str
    op: str
    method: str
    path: str
    headers: dict
    body: Any
    status: int
    answer_headers: dict
    answer: Any
    events: list | None


def load() -> list[Exchange]:
    found = []
    for name in FILES:
        with gzip.open(WIRE / f"{name}.jsonl.gz", "rt") as lines:
            for line in lines:
                e = json.loads(line)
                request, response = e["request"], e["response"]
                events = response.get("events")
                if events and "type" not in events[0]:  # one object, which the recorder took for a stream
                    response, events = {**response, "body": events[0]}, None
                found.append(
                    Exchange(
                        name,
                        e["id"],
                        e.get("op", ""),
                        request["method"],
                        request["path"],
                        request["headers"],
                        request.get("body"),
                        response["status"],
                        {key.lower(): value for key, value in response.get("headers", {}).items()},
                        response.get("body"),
                        events,
                    )
                )
    return sorted(found, key=lambda exchange: exchange.id)


class Exempt(Exception):
    """What the exchange needs was set up by steps that are not in the recording."""


def full(obj: Any) -> bool:
    return isinstance(obj, dict) and bool(obj.get("kind")) and bool((obj.get("metadata") or {}).get("uid"))


class World:
    """A server whose state is rebuilt before each exchange."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.store: Store = server.store
        self.known: dict[str, dict] = {}
        self.revisions: dict[int, int] = {}
        self.invented: set[str] = set()
        self.touched = ""

    # state

    def served(self, target: Target) -> Served | None:
        return self.server.catalogue.find(target.group, target.version, target.resource)

    async def put(self, served: Served, obj: dict) -> None:
        metadata = obj["metadata"]
        served = self.server.catalogue.of_kind(obj.get("apiVersion", ""), obj.get("kind", "")) or served
        key = served.key(metadata.get("namespace", ""), metadata["name"])
        if served.kind.namespaced:
            await self.namespace(metadata.get("namespace", ""))
        stored = served.inward(obj) if served.inward else obj
        value = pack(stored)
        entry = self.store.get(key)
        if entry is None or entry.value != value:
            written = await self.store.commit([Put(key, value)])
            entry = written.events[0].entry
        if str(metadata.get("resourceVersion", "")).isdigit():
            self.revisions[int(metadata["resourceVersion"])] = entry.mod_revision

    async def drop(self, key: str) -> None:
        if self.store.get(key) is not None:
            await self.store.commit([Delete(key)])

    async def namespace(self, name: str) -> None:
        key = f"/registry/core/namespaces/{name}"
        if name and self.store.get(key) is None:
            body = {
                "metadata": {"name": name, "uid": f"ns-{name}", "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            }
            await self.store.commit([Put(key, json.dumps(body, separators=(",", ":")).encode())])

    def remember(self, obj: Any) -> None:
        if full(obj) and obj["kind"] != "Table" and not obj["kind"].startswith("Partial"):
            served = self.server.catalogue.of_kind(obj.get("apiVersion", ""), obj["kind"])
            if served:
                self.known[served.key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])] = obj

    def settle(self, e: Exchange) -> None:
        """After a write whose answer does not show the object, what our server made of it stands."""
        if e.method != "GET" and e.status < 300 and not full(e.answer):
            self.known.pop(self.touched, None)

    def revision(self, recorded: str) -> str:
        """Our name for a recorded version: that of the newest thing that was not newer then."""
        if not recorded.isdigit() or int(recorded) < 2 or int(recorded) > FUTURE:
            return recorded
        older = [known for known in self.revisions if known <= int(recorded)]
        return str(self.revisions[max(older)]) if older else "1"

    # before an exchange

    async def prepare(self, e: Exchange, *, from_answer: bool = False) -> None:
        path, _, query = e.path.partition("?")
        self.blurred, self.touched = False, ""
        target = resolve(path)
        if target is None or not target.resource:
            self._prepare_documents(e, path)
            return
        served = self.served(target)
        if served is None:
            if e.status in {404, 403}:
                return
            raise Exempt(f"{target.resource}.{target.group} is not defined in the recording")
        if e.status == 404 and isinstance(e.answer, str):
            raise Exempt(f"{target.resource}.{target.group} was withdrawn by a step that is not in the recording")
        if target.namespace and not self._speaks_of_missing_namespace(e):
            await self.namespace(target.namespace)
        verb = verb_of(e.method, target, dict(parse_qsl(query)))
        if verb in {"list", "deletecollection"}:
            await self._collection(e, served, target)
        elif verb != "watch":
            await self._single(e, served, target, verb, from_answer=from_answer)

    def _prepare_documents(self, e: Exchange, path: str) -> None:
        group = re.match(r"/(?:openapi/v3/)?apis/([^/]+)", path)
        if group and group[1] not in self.server.catalogue.groups() and e.status == 200:
            raise Exempt(f"{group[1]} is defined neither by us nor in the recording")

    def _speaks_of_missing_namespace(self, e: Exchange) -> bool:
        details = e.answer.get("details") if isinstance(e.answer, dict) else None
        return bool(details) and details.get("kind") == "namespaces"

    async def _collection(self, e: Exchange, served: Served, target: Target) -> None:
        if e.status != 200 or not isinstance(e.answer, dict) or "_same_body_as" in e.answer:
            return
        items = [dict(item) for item in e.answer.get("items") or ()]
        shown: set[str] = set()
        for row in e.answer.get("rows") or ():
            known = (row.get("object") or {}).get("metadata")
            if known and row["object"]["kind"] == served.kind.name:
                items.append(dict(row["object"]))
            elif known:
                key = served.key(known.get("namespace", ""), known["name"])
                self.blurred = self.blurred or key not in self.known
                shown.add(key)
                entry = self.store.get(key)
                ours = unpack(served, entry.value, entry.mod_revision) if entry else {}
                items.append(dict(self.known.get(key) or {**ours, "metadata": known}))
        wanted = shown
        for item in items:
            if "metadata" not in item or "name" not in item["metadata"]:
                continue
            if served.kind.id.startswith("customresourcedefinitions") and "spec" not in item:
                continue  # the server itself reads definitions
            obj = {"apiVersion": served.api_version, "kind": served.kind.name, **item}
            if obj["kind"].startswith("Partial"):
                key = served.key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
                obj = dict(self.known.get(key) or obj)
            await self.put(served, obj)
            wanted.add(served.key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))
        first_page = "limit=" in e.path and "continue=" not in e.path and "Selector" not in e.path
        if first_page and wanted and "_trimmed_items" not in e.answer:
            for entry in self.store.list(served.under(target.namespace)).entries:
                if entry.key < max(wanted) and entry.key not in wanted:
                    await self.drop(entry.key)
        if "_trimmed_items" in e.answer or (e.answer.get("metadata") or {}).get("continue") or "continue=" in e.path:
            return
        if served.kind.id in {"namespaces", "customresourcedefinitions.apiextensions.k8s.io"}:
            return
        if "Selector" not in e.path and "resourceVersionMatch=Exact" not in e.path:
            for entry in self.store.list(served.under(target.namespace)).entries:
                if entry.key not in wanted:
                    await self.drop(entry.key)

    async def _single(self, e: Exchange, served: Served, target: Target, verb: str, *, from_answer: bool) -> None:
        sent = self._sent(e)
        name = target.name or (sent.get("metadata") or {}).get("name", "")
        if not name or "list" not in served.verbs:
            return
        key = self.touched = served.key(target.namespace, name)
        missing = isinstance(e.answer, dict) and e.answer.get("reason") == "NotFound"
        created = e.status == 201 and not target.subresource
        if (missing and (e.answer.get("details") or {}).get("name") == name) or created:
            await self.drop(key)
            return
        if e.status == 404 or (verb == "create" and e.status in {400, 413, 415, 422, 500} and not target.subresource):
            return
        if verb == "create" and e.status == 409 and self.store.get(key) is None:
            await self.put(served, {**sent, "metadata": {**sent["metadata"], "uid": "already-there"}})
            return
        await self._exists(e, served, key, verb, from_answer=from_answer)
        version = str((sent.get("metadata") or {}).get("resourceVersion", ""))
        if verb == "update" and e.status == 200 and version.isdigit():
            self.revisions[int(version)] = self.store.get(key).mod_revision

    def _sent(self, e: Exchange) -> dict:
        """The object in the request, also when it is protobuf."""
        if not isinstance(e.body, dict):
            return {}
        if "_base64_prefix" not in e.body:
            return e.body
        try:
            return protobuf.decode(base64.b64decode(e.body["_base64_prefix"]))
        except BadRequest:
            return {}

    async def _exists(self, e: Exchange, served: Served, key: str, verb: str, *, from_answer: bool) -> None:
        answered = e.answer if full(e.answer) and e.answer["kind"] == served.kind.name else None
        if isinstance(e.answer, dict) and e.answer.get("kind") == "Table" and key not in self.known:
            self.blurred = True
            answered = {**e.answer["rows"][0]["object"], "kind": served.kind.name, "apiVersion": served.api_version}
        if verb == "get" and answered:
            if "spec" not in answered and served.kind.id.startswith("customresourcedefinitions"):
                raise Exempt(f"{key} is not recorded as a whole")
            await self.put(served, answered)
            return
        sent = self._sent(e)
        if verb == "update" and e.status == 200 and full(sent) and answered is None:
            await self.put(served, sent)
            return
        before = None if from_answer else self.known.get(key)
        if before is None and answered is not None:
            before = {**answered, "metadata": {**answered["metadata"]}}
            if verb in {"delete", "patch", "update"}:
                for gone in ("deletionTimestamp", "deletionGracePeriodSeconds"):
                    before["metadata"].pop(gone, None)
        if key in self.invented and e.status in {409, 429}:
            raise Exempt(f"{key} was made by a step that is not in the recording")
        if before is None and self.store.get(key) is None:
            before = self._invented(e, served, key)
        if before is not None:
            await self.put(served, before)

    def _invented(self, e: Exchange, served: Served, key: str) -> dict:
        """An object of which the recording says only that it is there."""
        body = INVENTED.get(served.kind.id)
        if body is None or e.status == 429 or (e.status == 409 and e.method == "PATCH"):
            raise Exempt(f"{key} was made by a step that is not in the recording")
        namespace, _, name = key.removeprefix(served.prefix).rpartition("/")
        metadata = {"name": name, "namespace": namespace, "uid": "00000000-0000-4000-8000-000000000000"}
        head = {"apiVersion": served.api_version, "kind": served.kind.name}
        made = {**head, "metadata": {**metadata, "creationTimestamp": "2026-01-01T00:00:00Z"}, **body}
        if e.path.partition("?")[0].endswith("/binding"):
            made = {**made, "spec": {**TEMPLATE}}
        self.invented.add(key)
        return self.server.fitter.complete(served, self.server.fitter.read(served, made).obj)

    # the exchange

    def _query(self, query: str) -> str:
        pairs = []
        for key, value in parse_qsl(query, keep_blank_values=True):
            if key == "hash":
                continue
            if key == "resourceVersion":
                pairs.append((key, self.revision(value)))
            elif key == "continue":
                pairs.append((key, self._token(value)))
            else:
                pairs.append((key, value))
        return urlencode(pairs)

    def _token(self, recorded: str) -> str:
        token = json.loads(base64.urlsafe_b64decode(recorded + "=" * (-len(recorded) % 4)))
        token["rv"] = self.store.revision
        return base64.urlsafe_b64encode(json.dumps(token).encode()).rstrip(b"=").decode()

    def _body(self, e: Exchange) -> bytes:
        body = e.body
        if body is None:
            return b""
        if isinstance(body, str):
            return body.encode()
        if isinstance(body, dict) and "_base64_prefix" in body:
            raw = base64.b64decode(body["_base64_prefix"])
            if len(raw) != body["_bytes"]:
                raise Exempt("the body is not recorded as a whole")
            return self._renumbered(raw)
        if "duplicate field" in str(e.answer):
            raise Exempt("a repeated key is not recorded")
        text = json.dumps(body)
        if e.status == 413 and len(text) < 3 * 1024 * 1024:
            raise Exempt("the body is not recorded as a whole")
        version = r'("resourceVersion": ")(\d+)(")'
        return re.sub(version, lambda m: m[1] + self.revision(m[2]) + m[3], text).encode()

    def _renumbered(self, raw: bytes) -> bytes:
        """A protobuf body with our name for the version it insists on."""
        obj = protobuf.decode(raw)
        version = (obj.get("metadata") or {}).get("resourceVersion", "")
        if not version:
            return raw
        return protobuf.encode({**obj, "metadata": {**obj["metadata"], "resourceVersion": self.revision(version)}})

    async def replay(self, e: Exchange, tag: str = "") -> tuple[int, dict, bytes]:
        path, _, query = e.path.partition("?")
        headers = {key: value for key, value in e.headers.items() if key not in {"accept-encoding", "if-none-match"}}
        if tag:
            headers["if-none-match"] = tag
        elif e.status == 304:
            _, ours, _ = await self.replay(e._replace(status=200))
            return await self.replay(e, ours.get("etag", ""))
        body = self._body(e)
        if e.body is None and e.method in {"POST", "PUT", "PATCH"} and e.status not in {400, 404, 415}:
            raise Exempt("the body is not recorded")
        answered: dict = {"body": b""}
        live = asyncio.ensure_future(self._live(e, self.store.revision)) if e.events else None

        async def receive():
            if not answered.get("asked"):
                answered["asked"] = True
                return {"type": "http.request", "body": body}
            await asyncio.sleep(10)
            return {"type": "http.disconnect"}

        async def send(message):
            if message["type"] == "http.response.start":
                answered["status"] = message["status"]
                answered["headers"] = {k.decode(): v.decode("utf-8") for k, v in message["headers"]}
            else:
                answered["body"] += message.get("body", b"")

        scope = {
            "type": "http",
            "method": e.method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": self._query(query).encode(),
            "headers": [(key.encode(), str(value).encode()) for key, value in headers.items()],
            "server": ("127.0.0.1", 6443),
        }
        await self.server.app(scope, receive, send)
        if live:
            await live
        return answered["status"], answered["headers"], answered["body"]

    async def _live(self, e: Exchange, since: int) -> None:
        """Do what the recorded watcher saw happen."""
        await asyncio.sleep(0.2)
        for event in self._happening(e):
            obj = event["object"]
            served = self.server.catalogue.of_kind(obj.get("apiVersion", ""), obj.get("kind", ""))
            if served is None or "name" not in obj.get("metadata", {}):
                continue
            if event["type"] == "DELETED":
                await self.drop(served.key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))
            else:
                await self.put(served, obj)
            await asyncio.sleep(0.01)

    def _initial(self, e: Exchange) -> int:
        """How many of the events tell what was there already."""
        query = dict(parse_qsl(e.path.partition("?")[2]))
        version = query.get("resourceVersion", "")
        if version not in {"", "0"} and not truthy(query.get("sendInitialEvents", "")):
            return 0
        count, seen = 0, set()
        for event in e.events or ():
            name = (event["object"].get("metadata") or {}).get("name")
            if event["type"] != "ADDED" or name in seen:
                break
            seen.add(name)
            count += 1
        return count

    def _happening(self, e: Exchange) -> list:
        return [event for event in (e.events or ())[self._initial(e) :] if event["type"] not in {"BOOKMARK", "ERROR"}]

    async def prepare_watch(self, e: Exchange) -> None:
        """Put what was there before a watch began; what happens during it is done while it runs."""
        target = resolve(e.path.partition("?")[0])
        served = self.served(target) if target else None
        if served is None or e.status != 200 or e.events is None:
            return
        if any(event["object"].get("kind") == "Table" for event in e.events):
            raise Exempt("the objects behind the recorded rows are not recorded")
        if any(event["type"] == "ERROR" for event in e.events):
            return
        count = self._initial(e)
        if count or "sendInitialEvents" in e.path:
            for entry in self.store.list(served.under(target.namespace)).entries:
                await self.drop(entry.key)
        for event in e.events[:count]:
            await self.put(served, event["object"])
        touched = {}
        for event in e.events[count:]:
            if event["type"] in {"MODIFIED", "DELETED"}:
                touched.setdefault(event["object"]["metadata"]["name"], event["object"])
            elif event["type"] == "ADDED":
                touched.setdefault(event["object"]["metadata"]["name"], None)
        for name, obj in touched.items():
            if obj is not None:
                await self.put(
                    served, {**obj, "metadata": {**obj["metadata"], "creationTimestamp": "2001-01-01T00:00:00Z"}}
                )
            else:
                await self.drop(served.key(target.namespace, name))
        recorded = dict(parse_qsl(e.path.partition("?")[2])).get("resourceVersion", "")
        if recorded.isdigit() and 1 < int(recorded) < FUTURE:
            self.revisions[int(recorded)] = self.store.revision


# comparing


def masked(text: str) -> str:
    for pattern, name in MASKS:
        text = pattern.sub(name, text)
    return text


def differences(want: Any, got: Any, path: str = "") -> list[str]:
    """Where the keys of two answers differ."""
    if isinstance(want, dict) and isinstance(got, dict):
        return key_differences(want, got, path)
    if isinstance(want, list) and isinstance(got, list):
        got = matched(want, got)
        found = []
        for index, (one, other) in enumerate(zip(want, got, strict=False)):
            found += differences(one, other, f"{path}[{index}]")
        return found
    if type(want) is not type(got) and not (isinstance(want, int | float) and isinstance(got, int | float)):
        return [f"{path}: want {want!r:.60}, got {got!r:.60}"]
    return []


def identity(item: Any) -> tuple:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return (metadata.get("namespace"), metadata.get("name")) if isinstance(metadata, dict) else ()


def matched(want: list, got: list) -> list:
    """The items of our list in the order of theirs, where items have names."""
    ours = {identity(item): item for item in got}
    if () in ours or any(identity(item) not in ours for item in want):
        return got
    return [ours[identity(item)] for item in want]


def key_differences(want: dict, got: dict, path: str) -> list[str]:
    partly = any(key.startswith("_") for key in want)
    expected = {key for key in want if not key.startswith("_")} - UNMODELLED
    found = [f"{path}: lacks {key}" for key in sorted(expected - set(got))]
    if not partly:
        found += [f"{path}: has {key} besides" for key in sorted(set(got) - set(want) - {"description"})]
    for key in sorted(expected & set(got)):
        found += differences(want[key], got[key], f"{path}.{key}")
    return found


def parting(want: Any, got: Any) -> str:
    """Two texts from where they part."""
    if not isinstance(want, str) or not isinstance(got, str):
        return f"want {want!r:.300}, got {got!r:.300}"
    at = next((i for i, (a, b) in enumerate(zip(want, got, strict=False)) if a != b), 0)
    start = max(0, at - 40)
    return f"want {want[start:]!r:.300}, got {got[start:]!r:.300}"


def status_differences(want: dict, got: dict) -> list[str]:
    found = []
    for key in ("reason", "message", "status", "code"):
        one, other = want.get(key), got.get(key)
        if isinstance(one, str) and isinstance(other, str):
            one, other = masked(one), masked(other)
        if one != other:
            found.append(f"{key}: {parting(one, other)}")
    causes = [
        [
            (c.get("reason"), masked(c.get("message", "")), c.get("field"))
            for c in (s.get("details") or {}).get("causes") or ()
        ]
        for s in (want, got)
    ]
    if causes[0] != causes[1]:
        found.append(f"causes: want {causes[0]!r:.300}, got {causes[1]!r:.300}")
    return found


def columns(table: dict) -> list:
    return [(c["name"], c["type"], c.get("format", ""), c.get("priority", 0)) for c in table["columnDefinitions"] or ()]


DISCOVERY = {"APIGroupList", "APIResourceList", "APIGroupDiscoveryList", "APIGroup"}


def body_differences(want: Any, got: Any) -> list[str]:
    if not isinstance(want, dict) or not isinstance(got, dict):
        return [] if isinstance(want, str) == isinstance(got, str) else [f"want {want!r:.80}, got {got!r:.80}"]
    if want.get("kind") == "Status":
        return status_differences(want, got) + differences(want, got)
    if want.get("kind") in DISCOVERY or "openapi" in want or "swagger" in want or set(want) == {"paths"}:
        return [f"lacks {key}" for key in want if not key.startswith("_") and key not in got]
    found = differences(want, got)
    if want.get("kind") == "Table" and columns(want) != columns(got):
        found.append(f"columns: want {columns(want)}, got {columns(got)}")
    return found


def compare(e: Exchange, status: int, headers: dict, body: bytes) -> list[str]:
    if e.path.partition("?")[0].rstrip("/") in {"/version", "/metrics"}:
        return [] if status == e.status else [f"status {status}"]
    if e.path.startswith("/openapi/v3/version") or "proto-openapi.spec.v3" in e.headers.get("accept", ""):
        return []  # the schema of a version, and schemas in protobuf: nobody has been seen to need them
    found = [] if status == e.status else [f"status: want {e.status}, got {status} {body[:200]!r}"]
    want, got = e.answer_headers.get("content-type", ""), headers.get("content-type", "")
    if want != got and e.status not in {304, 204}:
        found.append(f"content type: want {want!r}, got {got!r}")
    if found:
        return found
    if e.events is not None and "stream=watch" not in got:
        return watch_differences(e.events, [json.loads(line) for line in body.splitlines()])
    if isinstance(e.answer, dict) and ("_base64_prefix" in e.answer or "_same_body_as" in e.answer):
        return []
    if isinstance(e.answer, dict):
        return body_differences(e.answer, json.loads(body))
    if isinstance(e.answer, str) and "yaml" not in want and e.method != "HEAD" and not e.answer.startswith(("[", "{")):
        return [] if masked(e.answer) == masked(body.decode()) else [f"text: want {e.answer!r:.200}, got {body!r:.200}"]
    return []


def watch_differences(want: list, got: list) -> list[str]:
    types = [[event["type"] for event in events] for events in (want, got)]
    if types[0] != types[1]:
        return [f"events: want {types[0]}, got {types[1]}"]
    found = []
    for index, (one, other) in enumerate(zip(want, got, strict=True)):
        found += [f"event {index} {text}" for text in differences(one, other)]
    return found


class Verdict(NamedTuple):
    exempt: dict[str, str]
    failed: dict[str, list[str]]
    held: set[str]


async def tried(world: World, e: Exchange) -> list[str]:
    """How an exchange differs: from the state last recorded, or else from that which its own answer shows."""
    found: list[str] = []
    for from_answer in (False, True):
        await world.prepare(e, from_answer=from_answer)
        await world.prepare_watch(e)
        found = compare(blur(e) if world.blurred else e, *await world.replay(e))
        if not found or e.method not in {"PUT", "PATCH", "DELETE"}:
            break
    return found


def blur(e: Exchange) -> Exchange:
    """Without the cells of rows whose objects were not recorded."""
    rows = [{key: value for key, value in row.items() if key != "cells"} | {"_cells": 1} for row in e.answer["rows"]]
    return e._replace(answer={**e.answer, "rows": rows})


async def judge() -> dict[str, Verdict]:
    server = ApiServer(Store(), Settings(clock=LoopClock(), static_tokens=USERS, collects=False))
    await server.start()
    world = World(server)
    verdicts = {name: Verdict({}, {}, set()) for name in FILES}
    for e in load():
        try:
            found = await tried(world, e)
        except Exempt as why:
            verdicts[e.file].exempt[e.id] = str(why)
        else:
            if found:
                verdicts[e.file].failed[f"{e.id} {e.op} {e.method} {e.path[:110]}"] = found[:6]
            else:
                verdicts[e.file].held.add(e.id)
        world.settle(e)
        for obj in (e.answer, *((event or {}).get("object") for event in e.events or ())):
            world.remember(obj)
        await asyncio.sleep(0.1)  # definitions are served in the background
    await server.stop()
    return verdicts


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    return run_virtually(judge())


@pytest.mark.parametrize("name", FILES)
def test_recorded_exchanges_hold(name: str, verdicts: dict[str, Verdict]) -> None:
    failed = verdicts[name].failed
    told = "\n".join(f"{what}\n    " + "\n    ".join(why) for what, why in failed.items())
    assert not failed, f"{len(failed)} of {len(failed) + len(verdicts[name].held)} differ:\n{told}"


def test_few_exchanges_are_exempt(verdicts: dict[str, Verdict]) -> None:
    exempt = sum(len(verdict.exempt) for verdict in verdicts.values())
    held = sum(len(verdict.held) for verdict in verdicts.values())
    assert exempt < held / 4, {why for verdict in verdicts.values() for why in verdict.exempt.values()}
