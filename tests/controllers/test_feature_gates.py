"""Feature gates come from the settings and are off by default."""

from views import FakeView

from trimtab.controllers.feature_gates import feature_gates


def test_components_gate_follows_the_setting() -> None:
    assert not feature_gates(FakeView()).components
    assert feature_gates(FakeView(settings={"components": True})).components
