"""The freeze of all moves as a refusal of the gate."""

from datetime import UTC, datetime

from trimtab.api.kinds.disruption import DisruptionPolicy, DisruptionPolicySpec, Freeze
from trimtab.api.value import Meta
from trimtab.decide.freeze import FROZEN, format_freeze, freeze_refusal

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def policy(freeze: Freeze | None) -> DisruptionPolicy:
    return DisruptionPolicy(metadata=Meta(name="default"), spec=DisruptionPolicySpec(freeze=freeze))


def test_without_a_freeze_nothing_is_refused() -> None:
    assert freeze_refusal(None) is None
    assert freeze_refusal(policy(None)) is None


def test_refusal_names_who_froze_when_and_why() -> None:
    refusal = freeze_refusal(policy(Freeze(since=NOON, by="ada", reason="wrong weights")))
    assert refusal is not None
    assert refusal.code == FROZEN
    assert format_freeze(Freeze(since=NOON, by="ada", reason="wrong weights")) == (
        "all moves are frozen since 2026-01-01 12:00:00Z by ada (wrong weights); `trimtab thaw` releases them"
    )
    assert format_freeze(Freeze()) == "all moves are frozen; `trimtab thaw` releases them"
