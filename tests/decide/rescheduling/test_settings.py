import pytest

from trimtab.decide.rescheduling.objectives import NoArgs
from trimtab.decide.rescheduling.settings import DEFAULT_OBJECTIVES, read_settings
from trimtab.errors import InputError

KNOWN = {"BetterAffinity": NoArgs}


def test_an_empty_file_gives_the_conservative_preset_and_default_objectives() -> None:
    settings = read_settings(None, KNOWN)
    assert (settings.preset, settings.max_moves, settings.objectives) == ("conservative", 5, DEFAULT_OBJECTIVES)


def test_a_value_overrides_its_preset() -> None:
    settings = read_settings({"preset": "aggressive", "maxMoves": 7}, KNOWN)
    assert (settings.max_moves, settings.confirmations) == (7, 1)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([], "not an object"),
        ({"preset": "bold"}, "no preset 'bold'"),
        ({"speed": 1}, "no setting 'speed'"),
        ({"objectives": [{"name": "Nonsense"}]}, "no objective 'Nonsense'"),
        ({"maxMoves": "many"}, "cannot be read"),
        ({"interval": "0s"}, "not a duration"),
    ],
)
def test_an_invalid_setting_is_named(raw: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_settings(raw, KNOWN)


def test_moves_in_flight_per_owner_are_at_least_one() -> None:
    settings = read_settings({"ownerInFlight": "10%"}, KNOWN)
    assert [settings.max_in_flight(replicas) for replicas in (0, 30)] == [1, 3]
