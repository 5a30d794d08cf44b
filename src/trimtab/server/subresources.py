"""The parts of objects that have paths of their own: status, scale, eviction, binding, tokens and their like."""

from trimtab.server.answer import Answer, Ask, Stream
from trimtab.server.catalogue import Served, Where
from trimtab.server.decode import read_body
from trimtab.server.negotiate import content_media
from trimtab.server.options import write_options
from trimtab.server.patching import Patcher
from trimtab.server.present import object_answer
from trimtab.server.routes import Target
from trimtab.server.verbs import Verbs


class Subresources:
    """Serves them all."""

    def __init__(self, verbs: Verbs, patcher: Patcher) -> None:
        self._verbs = verbs
        self._patcher = patcher

    async def answer(self, ask: Ask, target: Target, served: Served, verb: str) -> Answer | Stream:
        return await self._whole(ask, target, served, verb)

    async def _whole(self, ask: Ask, target: Target, served: Served, verb: str) -> Answer:
        """A part that is shown and written as the whole object: status, finalize, approval."""
        now = self._verbs.clock.now()
        where = Where(served, target.namespace, target.name, target.subresource)
        if verb == "get":
            return object_answer(ask, self._verbs.get(where), 200, now)
        if verb == "patch":
            outcome = await self._patcher.patch(ask, where)
            return object_answer(ask, outcome.found, 200, now)
        options = write_options("UpdateOptions", ask.query)
        body = read_body(
            content_media(ask.headers.get("content-type", "")), ask.body, served.api_version, served.kind.name
        )
        obj = self._verbs.fitter.understand(served, body, options.validation, ask.caller)
        outcome = await self._verbs.update(where, obj, options, ask.caller)
        return object_answer(ask, outcome.found, 200, now)

    async def review(self, ask: Ask, target: Target, served: Served) -> Answer:
        raise NotImplementedError
