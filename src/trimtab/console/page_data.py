"""What pages show: the model of the fleet, its histories and the services, fed by a cache from the first request on."""

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from trimtab.api.kinds.work import Binding
from trimtab.console.decision_history import DecisionHistory
from trimtab.console.feed import Feed
from trimtab.console.load_history import LoadHistory
from trimtab.console.model import FleetModel
from trimtab.console.page import Services
from trimtab.console.plans import Planner
from trimtab.runtime.cache import Cache


class PageData:
    """The model and the services of one console."""

    def __init__(self, now: Callable[[], datetime], services: Services, history_file: Path | None) -> None:
        self.model = FleetModel(self._labels_of)
        self.loads = LoadHistory(now)
        self.decisions = DecisionHistory(now, history_file)
        self.services = services._replace(loads=self.loads.loads, decisions=self.decisions.decisions)
        self._cache: Cache | None = None
        self._feed: Feed | None = None
        self._is_asked_for = False
        """Whether a page was requested: a browser connects again before the cache of a new process is there."""
        if services.stories is not None:
            services.stories.add_listener(self._story_changed)

    def _labels_of(self, binding: Binding) -> Mapping[str, str]:
        return self._feed.labels_of(binding) if self._feed is not None else {}

    def _story_changed(self) -> None:
        self.model.count_change("stories")

    def attach(self, cache: Cache) -> None:
        """Use this cache from the first request on; before, only loads and decisions that change are noted."""
        if cache is self._cache:
            return
        self._cache = cache
        self.loads.follow(cache)
        self.decisions.follow(cache)
        if self._is_asked_for:
            self._feed_model(cache)

    async def start_feed(self) -> None:
        """Read everything, if nobody has asked for it before."""
        self._is_asked_for = True
        if self._feed is None and self._cache is not None:
            self._feed_model(self._cache)
            await self._cache.wait_until_synced()

    def _feed_model(self, cache: Cache) -> None:
        if self._feed is not None:
            return
        self._feed = Feed(self.model, cache)
        self._feed.start()
        planner = Planner(cache, self.services.profile, self.services.settings)
        self.services = self.services._replace(
            plan=planner.plan, known_plan=planner.known_plan, resource=planner.resource, policy=planner.policy
        )

    async def close(self) -> None:
        self.decisions.close()
        if self.services.stories is not None:
            await self.services.stories.close()
