import msgspec

from trimtab.api.profile import PROFILES, TRIMTAB, UPSTREAM


def test_profiles_differ_in_every_switch() -> None:
    ours, theirs = msgspec.structs.asdict(TRIMTAB), msgspec.structs.asdict(UPSTREAM)
    assert [switch for switch in ours if ours[switch] == theirs[switch]] == []


def test_profiles_are_found_by_name() -> None:
    assert PROFILES == {"trimtab": TRIMTAB, "upstream": UPSTREAM}
