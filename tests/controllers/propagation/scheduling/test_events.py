"""Events of the scheduler are recorded on the binding and on its template."""

from builders import binding

from trimtab.controllers.propagation.scheduling.events import deletion_events, event_source


def test_deleted_binding_records_a_warning_on_binding_and_template() -> None:
    events = list(deletion_events(binding(clusters={"m1": 1})))
    assert [event.about.kind for event in events] == ["ResourceBinding", "Deployment"]
    assert {(event.type, event.reason, event.message) for event in events} == {
        ("Warning", "ScheduleBindingFailed", "skip schedule deleting resourceBinding: demo/web-deployment")
    }


def test_event_source_is_the_scheduler_of_the_binding() -> None:
    assert event_source(binding(scheduler_name="other")) == "other"
    assert event_source(binding(scheduler_name="")) == "default-scheduler"
