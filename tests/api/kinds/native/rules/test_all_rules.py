"""Properties that the validation rules of every native kind must have."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import trimtab.api.kinds
from api.kinds.native.native_objects import objects
from trimtab.api.kind import kinds
from trimtab.api.kinds.native.fields import message_name
from trimtab.registry import discover

discover(trimtab.api.kinds)
# Cluster is a built-in of Karmada's aggregated API, not of Kubernetes.
NATIVE = [kind for kind in kinds.values() if not kind.custom and kind.validators and kind.name != "Cluster"]


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(NATIVE), st.data())
def test_rules_never_raise_and_every_cause_has_a_message(kind: Any, data: st.DataObject) -> None:
    name = message_name(kind.api_version, kind.name)
    new, old = data.draw(objects(name)), data.draw(objects(name) | st.none())
    for fill in kind.defaults:
        new = fill(new)
    for check in kind.validators:
        assert all(cause.message for cause in check(new, old))
