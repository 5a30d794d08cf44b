"""The state of a fleet from the cache of a control plane, without requests."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from trimtab.api.profile import Profile
from trimtab.api.value import Object
from trimtab.dryrun.fleet_state import KINDS, FleetState
from trimtab.runtime.cache import Cache
from trimtab.runtime.propagatable import is_propagatable


def state_from_cache(cache: Cache, now: datetime, profile: Profile, settings: Mapping[str, Any]) -> FleetState:
    """The objects that decisions read, and all templates, as the cache has them."""
    objects: list[Object] = [entry.typed for kind in KINDS for entry in cache.table_of(kind).entries.values()]
    templates = [
        {"apiVersion": table.resource.api_version, "kind": table.resource.kind, **entry.raw}
        for table in cache.tables()
        if is_propagatable(table.resource)
        for entry in list(table.entries.values())
    ]
    return FleetState.of(objects, templates, now, profile, settings)
