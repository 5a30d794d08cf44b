"""The API `search.karmada.io/v1alpha1`: `search/cache/...` lists cached objects, `proxying/karmada/proxy/...` is a proxy.

The proxy looks like one API server. It reads cached kinds from the cache over all members and forwards changes of their
objects to the member that has them. Everything else goes to the API server of the control plane. Objects carry the
annotation `resource.karmada.io/cached-from-cluster`.
"""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

import orjson

from trimtab.api.kind import Kind
from trimtab.api.limits import MAX_CONTINUE_TOKEN_LENGTH, MAX_OBJECTS_IN_LOOP
from trimtab.api.value import Object, Raw
from trimtab.errors import ApiError, BadRequest, Expired, MethodNotAllowed, NotFound, Unavailable
from trimtab.members.cache_revisions import as_proxied, as_stored, decode_revisions, encode_revisions, with_source
from trimtab.members.search_cache import CachedObject, CachedTable, SearchCache
from trimtab.server import api_errors
from trimtab.server.printers.responses import printer_for
from trimtab.server.printers.table import make_table, partial_metadata, validate_include_object
from trimtab.server.registry.selector_matching import RequestSelector, parse_selectors
from trimtab.server.request import large_objects
from trimtab.server.request.body_decoding import decode_body
from trimtab.server.request.body_worker import BodyWorker
from trimtab.server.request.messages import ForwardedResponse, Request, Response, StreamingResponse
from trimtab.server.request.negotiation import JSON, ResponseFormat, media_type_of, negotiate_format
from trimtab.server.request.options import ListOptions, parse_list_options
from trimtab.server.request.routes import RequestInfo, parse_path, verb_of
from trimtab.server.resources import ResourceCatalogue, ServedResource

GROUP, VERSION = "search.karmada.io", "v1alpha1"
SEARCH_PATH = f"/apis/{GROUP}/{VERSION}/search/"
PROXY_PATH = f"/apis/{GROUP}/{VERSION}/proxying/"
MAX_WATCH_SECONDS = 1800.0
MAX_WAITING_EVENTS = 1000
"""Events of a watch that its client has not read; then the members wait."""

log = logging.getLogger("trimtab.members")
_READS = frozenset({"get", "list", "watch"})

AnyAnswer = ForwardedResponse
Forward = Callable[[Request, str, str], Awaitable[AnyAnswer]]
"""Sends a request to a member, with the cluster and the path in it."""
CheckAccess = Callable[[Request, RequestInfo], None]
"""Raises `Forbidden` when the caller of a request may not do with a target what the request asks for."""


def served_search_resources() -> Iterator[ServedResource]:
    """What discovery lists; both have paths below a name, and no objects."""
    for plural, name in (("proxying", "Proxying"), ("search", "Search")):
        kind = Kind(Object, group=GROUP, version=VERSION, name=name, plural=plural, namespaced=False, verbs=("get",))
        yield ServedResource(kind, VERSION, schema=dict)


class Page(NamedTuple):
    """What a client asked for in the query of a list."""

    selector: RequestSelector
    limit: int
    after: tuple[str, ...]


class SearchApi:
    """Answers the requests for search and proxy."""

    def __init__(
        self,
        cache: Callable[[], SearchCache | None],
        catalogue: ResourceCatalogue,
        *,
        forward: Forward,
        handle_locally: Callable[[Request], Awaitable[AnyAnswer]],
        check_access: CheckAccess,
        body_worker: BodyWorker,
        now: Callable[[], datetime],
    ) -> None:
        self._find_cache = cache
        self._catalogue = catalogue
        self._forward = forward
        self._handle_locally = handle_locally
        self._check_access = check_access
        """What a caller needs besides the right to search."""
        self._body_worker = body_worker
        self._now = now

    @property
    def _cache(self) -> SearchCache:
        cache = self._find_cache()
        if cache is None:
            raise Unavailable("the search cache has not been started")
        return cache

    async def search(self, request: Request, name: str) -> AnyAnswer:
        """`GET search/cache/PATH`: the cached objects below a path of the Kubernetes API."""
        if name != "cache":
            raise NotFound(f"there is no search in {name!r}; use search/cache")
        if request.method != "GET":
            raise api_errors.no_such_method()
        target = parse_path(request.path.removeprefix(f"{SEARCH_PATH}{name}"))
        if target is None or not target.resource:
            raise BadRequest("the path after search/cache names no resource of the Kubernetes API")
        self._check_access(request, target)
        options = parse_list_options(request.query)
        selector = self._selector(target, options.labels, options.fields)
        objects = list(self._objects(target))
        tables, served = self._tables(target), self._find_served(target)
        if served is None and not tables:
            raise NotFound(f"no server of the fleet serves {target.resource} in {target.group}/{target.version}")
        kind = tables[0].table.resource.kind if tables or served is None else served.kind.name
        api_version = f"{target.group}/{target.version}" if target.group else target.version

        def build() -> Response:
            found = [with_source(one.raw, one.cluster) for one in objects if _matches(selector, one.raw)]
            return Response(200, orjson.dumps({"kind": f"{kind}List", "apiVersion": api_version, "items": found}))

        return await large_objects.run(len(objects) > MAX_OBJECTS_IN_LOOP, build)

    async def proxy(self, request: Request, name: str) -> AnyAnswer:
        """Any request for `proxying/NAME/proxy/PATH`."""
        prefix = f"{PROXY_PATH}{name}/proxy"
        if request.path != prefix and not request.path.startswith(f"{prefix}/"):
            raise api_errors.no_such_path()
        path = request.path.removeprefix(prefix) or "/"
        target = parse_path(path)
        if target is None or not self._is_cached(target):
            return await self._ask_host(request, path)
        verb = verb_of(request.method, target, request.query)
        if not target.subresource and verb in _READS:
            self._check_access(request, target)
            return await self._read(request, target, verb)
        if not target.name:
            raise MethodNotAllowed(f"{verb} is not supported on {target.resource}: the proxy does not know the cluster")
        found = self._find(target)
        if verb == "update":
            await self._restore_body(request, target, found.cluster)
        return await self._forward(request, found.cluster, path)

    async def _ask_host(self, request: Request, path: str) -> AnyAnswer:
        request.certificate_user, request.path = request.caller.user, path
        request.headers = {
            name: text
            for name, text in request.headers.items()
            if not name.startswith(("authorization", "impersonate-"))
        }
        request.impersonate_groups, request.impersonate_extra = [], []
        return await self._handle_locally(request)

    def _is_cached(self, target: RequestInfo) -> bool:
        if not target.resource:
            return False
        served = self._find_served(target)
        is_registered = served is not None and (served.api_version, served.kind.name) in self._cache.registered
        return is_registered or bool(self._tables(target))

    def _find_served(self, target: RequestInfo) -> ServedResource | None:
        return self._catalogue.find(target.group, target.version, target.resource)

    def _tables(self, target: RequestInfo) -> list[CachedTable]:
        return self._cache.tables((target.group, target.version, target.resource))

    def _objects(self, target: RequestInfo) -> Iterator[CachedObject]:
        for table in self._tables(target):
            if not target.name:
                yield from table.objects(target.namespace)
            elif (found := table.get(target.namespace, target.name)) is not None:
                yield found

    def _find(self, target: RequestInfo) -> CachedObject:
        found = next(self._objects(target), None)
        if found is None:
            raise api_errors.not_found(target.resource, target.group, target.name)
        return found

    def _selector(self, target: RequestInfo, labels: str, fields: str) -> RequestSelector:
        served = self._find_served(target)
        if served is None:  # a kind that only members serve: its fields are not known here
            kind = Kind(Object, group=target.group, version=target.version, name="", plural=target.resource)
            served = ServedResource(kind, target.version, schema=dict)
        return parse_selectors(served, labels, fields)

    async def _restore_body(self, request: Request, target: RequestInfo, cluster: str) -> None:
        """Take back what the proxy added to the object that the client read here."""
        if not request.body:
            return
        served = self._find_served(target)
        names = (served.api_version, served.kind.name) if served is not None else ("", "")
        await self._body_worker.prepare(request, *names)
        media = media_type_of(request.headers.get("content-type", ""))

        def restore(body: bytes) -> bytes:
            return orjson.dumps(as_stored(decode_body(media, body, *names).obj, cluster))

        request.body = await large_objects.run(large_objects.is_large(request.body), restore, request.body)
        request.headers["content-type"] = JSON

    async def _read(self, request: Request, target: RequestInfo, verb: str) -> AnyAnswer:
        form = negotiate_format(request.headers.get("accept", ""), single=verb == "get", custom=True)
        include = validate_include_object(request.query.get("includeObject", "")) if form.transform == "Table" else ""
        options = parse_list_options(request.query)
        if verb == "watch":
            return StreamingResponse(self._watch(target, options, form.transform))
        if verb == "get":
            found = self._find(target)
            return self._response(target, form, include, [as_proxied(found.raw, found.cluster)], None)
        page = self._page(target, options)
        objects, revisions = list(self._objects(target)), self._revisions(target)
        head = self._list_head(target, form.transform)

        def build() -> Response:
            items, metadata = _select_page(objects, page)
            metadata["resourceVersion"] = encode_revisions(revisions)
            return self._response(target, form, include, items, {**head, "metadata": metadata})

        return await large_objects.run(len(objects) > MAX_OBJECTS_IN_LOOP, build)

    def _response(
        self, target: RequestInfo, form: ResponseFormat, include: str, items: list[Raw], head: Raw | None
    ) -> Response:
        """One object, or a list with this head."""
        if form.transform == "Table" and (served := self._find_served(target)) is not None:
            printer, metadata = printer_for(served), head["metadata"] if head is not None else Raw()
            rows = [printer.row(orjson.dumps(item), 0, self._now(), include, form.version) for item in items]
            return Response(200, orjson.dumps(make_table(form.version, metadata, printer.column_definitions(), rows)))
        if form.transform and form.transform != "Table":
            items = [partial_metadata(item, form.version) for item in items]
        return Response(200, orjson.dumps(items[0] if head is None else {**head, "items": items}))

    def _list_head(self, target: RequestInfo, transform: str) -> Raw:
        if transform and transform != "Table":
            return {"kind": transform, "apiVersion": "meta.k8s.io/v1"}
        tables, served = self._tables(target), self._find_served(target)
        kind = served.kind.name if served is not None else tables[0].table.resource.kind
        return {"kind": f"{kind}List", "apiVersion": f"{target.group}/{target.version}".removeprefix("/")}

    def _revisions(self, target: RequestInfo) -> dict[str, str]:
        return {table.cluster: table.table.observed_revision for table in self._tables(target)}

    def _page(self, target: RequestInfo, options: ListOptions) -> Page:
        selector = self._selector(target, options.labels, options.fields)
        return Page(selector, options.limit, _decode_continue_token(options.after) if options.after else ())

    def _watch(self, target: RequestInfo, options: ListOptions, transform: str) -> AsyncIterator[bytes]:
        """The lines of a watch; what the client asked for is checked before the first line."""
        if target.name:
            options = options._replace(fields=f"metadata.name={target.name}")
        selector = self._selector(target, options.labels, options.fields)
        seen = decode_revisions(options.version_text)
        watch = FleetWatch(self._cache, target, options.labels, options.fields)
        seconds = MAX_WATCH_SECONDS if options.timeout is None else options.timeout
        return _watch_lines(watch, watch.events(seen, selector), min(seconds, MAX_WATCH_SECONDS), transform)


async def _watch_lines(
    watch: "FleetWatch", events: AsyncIterator[tuple[str, Raw]], seconds: float, transform: str
) -> AsyncIterator[bytes]:
    timer = asyncio.get_running_loop().call_later(max(0.0, seconds), watch.end)
    try:
        async for type_, raw in events:
            shown = partial_metadata(raw) if transform else raw
            yield orjson.dumps({"type": type_, "object": shown}) + b"\n"
    except Expired as fault:
        yield orjson.dumps({"type": "ERROR", "object": fault.status()}) + b"\n"
    finally:
        timer.cancel()


def _decode_continue_token(token: str) -> tuple[str, ...]:
    """The place of the last object of the page before."""
    try:
        if len(token) <= MAX_CONTINUE_TOKEN_LENGTH:
            cluster, namespace, name = orjson.loads(base64.urlsafe_b64decode(token))
            return str(cluster), str(namespace), str(name)
    except (ValueError, TypeError):
        pass
    raise BadRequest("continue key is not valid: it is not one of the search proxy")


def _select_page(objects: list[CachedObject], page: Page) -> tuple[list[Raw], Raw]:
    """The objects of a page and the metadata of the list; the order is by cluster, namespace and name."""
    found = [one for one in objects if _matches(page.selector, one.raw) and _place(one) > page.after]
    metadata: Raw = {}
    if page.limit and len(found) > page.limit:
        last = _place(found[page.limit - 1])
        metadata["continue"] = base64.urlsafe_b64encode(orjson.dumps(last)).decode()
        metadata["remainingItemCount"] = len(found) - page.limit
        found = found[: page.limit]
    return [as_proxied(one.raw, one.cluster) for one in found], metadata


class FleetWatch:
    """One watch over a resource in all clusters that have it cached, merged in the order in which events arrive."""

    def __init__(self, cache: SearchCache, target: RequestInfo, labels: str, fields: str) -> None:
        self._cache = cache
        self._target = target
        self._selectors = {"labels": labels, "fields": fields}
        self._events: asyncio.Queue[tuple[str, str, Raw] | ApiError] = asyncio.Queue(MAX_WAITING_EVENTS)
        self._followers: list[asyncio.Task[None]] = []
        self._ended = asyncio.Event()
        self._revisions: dict[str, str] = {}

    def end(self) -> None:
        """End the watch; the client watches again."""
        self._ended.set()

    async def events(self, seen: Mapping[str, str], selector: RequestSelector) -> AsyncIterator[tuple[str, Raw]]:
        """Events until what is cached changes; then the client watches again and sees the new clusters."""
        tables = self._cache.tables((self._target.group, self._target.version, self._target.resource))
        if gone := sorted(seen.keys() - {table.cluster for table in tables}):
            raise Expired(f"the cluster {gone[0]} is not cached any more: list again")
        for table in tables:
            self._revisions[table.cluster] = seen.get(table.cluster) or table.table.observed_revision
        self._cache.end_on_change(self._ended)
        for table in tables:
            for count, one in enumerate(
                list(table.objects(self._target.namespace)) if table.cluster not in seen else ()
            ):
                if count % MAX_OBJECTS_IN_LOOP == MAX_OBJECTS_IN_LOOP - 1:
                    await asyncio.sleep(0)
                if _matches(selector, one.raw):
                    yield "ADDED", as_proxied(one.raw, one.cluster, self._revisions)
        loop = asyncio.get_running_loop()
        self._followers = [loop.create_task(self._follow(table)) for table in tables]
        try:
            async for event in self._receive_events():
                yield event[0], as_proxied(event[2], event[1], self._advance(event[1], event[2]))
        finally:
            for follower in self._followers:
                follower.cancel()

    async def _receive_events(self) -> AsyncIterator[tuple[str, str, Raw]]:
        loop = asyncio.get_running_loop()
        ended = loop.create_task(self._ended.wait())
        try:
            while True:
                arrival = loop.create_task(self._events.get())
                await asyncio.wait((arrival, ended), return_when=asyncio.FIRST_COMPLETED)
                if not arrival.done():
                    arrival.cancel()
                    return
                event = arrival.result()
                if isinstance(event, ApiError):
                    raise event
                yield event
        finally:
            ended.cancel()

    def _advance(self, cluster: str, raw: Raw) -> Mapping[str, str]:
        self._revisions[cluster] = str(raw["metadata"].get("resourceVersion", ""))
        return self._revisions

    async def _follow(self, table: CachedTable) -> None:
        try:
            async for changes in table.client.watch(
                table.table.resource, self._target.namespace, revision=self._revisions[table.cluster], **self._selectors
            ):
                for change in changes:
                    if change.type != "BOOKMARK" and table.selects(change.object["metadata"].get("namespace", "")):
                        await self._events.put((change.type, table.cluster, change.object))
        except Expired as fault:
            await self._events.put(fault)
        except (ApiError, OSError, TimeoutError) as fault:
            log.info("the watch of %s in %s ended: %s", table.table.resource.id, table.cluster, fault)
        self.end()


def _matches(selector: RequestSelector, raw: Raw) -> bool:
    if selector.labels.rules and not selector.labels.matches(raw["metadata"].get("labels") or {}):
        return False
    return not selector.fields or selector.matches(orjson.dumps(raw))


def _place(one: CachedObject) -> tuple[str, ...]:
    metadata = one.raw["metadata"]
    return (one.cluster, str(metadata.get("namespace", "")), str(metadata["name"]))
