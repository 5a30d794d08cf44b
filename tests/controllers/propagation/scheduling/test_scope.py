"""Which bindings the scheduler schedules."""

import pytest
from builders import binding

from trimtab.api.kinds.work import BindingSuspension
from trimtab.controllers import well_known
from trimtab.controllers.propagation.scheduling.scope import is_scheduled_here


def test_a_claimed_binding_of_this_scheduler_is_scheduled() -> None:
    assert is_scheduled_here(binding())
    assert is_scheduled_here(binding(scheduler_name=""))


def test_a_binding_of_another_scheduler_is_left_alone() -> None:
    assert not is_scheduled_here(binding(scheduler_name="my-scheduler"))


def test_a_binding_without_a_policy_is_left_alone() -> None:
    subject = binding()
    unclaimed = {key: value for key, value in subject.metadata.labels.items() if key != well_known.PP_ID}
    assert not is_scheduled_here(subject.but(metadata=subject.metadata.but(labels=unclaimed)))


@pytest.mark.parametrize(("suspended", "scheduled"), [(True, False), (False, True), (None, True)])
def test_suspended_scheduling_keeps_the_placement(suspended: bool | None, scheduled: bool) -> None:
    assert is_scheduled_here(binding(suspension=BindingSuspension(scheduling=suspended))) == scheduled
