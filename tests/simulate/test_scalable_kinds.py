import asyncio

from simulate.fixtures import CRDS, GAMES, game_crd, run_in_member
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.scalable_kinds import without_schemas


def test_scalable_custom_kind_is_cached_while_it_is_defined() -> None:
    async def scenario(member: SimulatedMember) -> None:
        assert member.cache.find_table(GAMES.id) is None
        await member.client.create(CRDS, game_crd())
        await asyncio.sleep(5)
        assert member.cache.find_table(GAMES.id) is not None
        await member.client.delete(CRDS, "", "games.play.example")
        await asyncio.sleep(5)
        assert member.cache.find_table(GAMES.id) is None

    run_in_member(scenario)


def test_custom_kind_without_scale_is_not_cached() -> None:
    async def scenario(member: SimulatedMember) -> None:
        crd = game_crd()
        del crd["spec"]["versions"][0]["subresources"]["scale"]
        await member.client.create(CRDS, crd)
        await asyncio.sleep(5)
        assert member.cache.find_table(GAMES.id) is None

    run_in_member(scenario)


def test_schemas_are_dropped_and_the_rest_of_the_crd_is_kept() -> None:
    crd = game_crd()
    (version,) = without_schemas(crd)["spec"]["versions"]
    assert "schema" not in version
    assert version["subresources"] == crd["spec"]["versions"][0]["subresources"]
    assert "schema" in crd["spec"]["versions"][0]
