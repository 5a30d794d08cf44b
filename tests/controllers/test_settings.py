import pytest
from views import FakeView

from trimtab.api.profile import TRIMTAB, UPSTREAM
from trimtab.controllers.settings import SETTINGS, default_of, setting


def test_given_value_wins_over_the_default() -> None:
    assert setting(FakeView(settings={"failover": False}), "failover") is False
    assert setting(FakeView(), "failover") is True


def test_default_may_depend_on_the_profile() -> None:
    assert default_of(SETTINGS["descheduler"], TRIMTAB) is True
    assert default_of(SETTINGS["descheduler"], UPSTREAM) is False
    assert default_of(SETTINGS["evacuate-after-seconds"], UPSTREAM) == 0


def test_undeclared_setting_is_an_error() -> None:
    with pytest.raises(KeyError):
        setting(FakeView(), "nonsense")


@pytest.mark.parametrize("name", SETTINGS)
def test_default_has_the_declared_type(name: str) -> None:
    declared = SETTINGS[name]
    assert declared.type(default_of(declared, TRIMTAB)) == default_of(declared, TRIMTAB)
