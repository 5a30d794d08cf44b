"""The state of a fleet from the cache of a control plane, without requests."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from trimtab.api.profile import Profile
from trimtab.dryrun.fleet_state import KINDS, FleetState
from trimtab.runtime.cache import Cache
from trimtab.runtime.propagatable import is_propagatable


def state_in_cache(
    cache: Cache, now: datetime, profile: Profile, settings: Mapping[str, Any]
) -> Callable[[], FleetState]:
    """Builds the state of what the cache has now: the objects that decisions read, and all templates.

    The result may be called in a thread: the cache itself is read here, which is quick.
    """
    entries = [entry for kind in KINDS for entry in cache.table_of(kind).entries.values()]
    templates = [
        (table.resource, list(table.entries.values())) for table in cache.tables() if is_propagatable(table.resource)
    ]

    def build() -> FleetState:
        raws = [
            {"apiVersion": resource.api_version, "kind": resource.kind, **entry.read_raw()}
            for resource, found in templates
            for entry in found
        ]
        return FleetState.of([entry.read_typed() for entry in entries], raws, now, profile, settings)

    return build
