import asyncio

from simulate.fixtures import DEFINITIONS, GAMES, games, in_a_member
from trimtab.simulate.member import Member
from trimtab.simulate.scalable_kinds import without_schemas


def test_scalable_custom_kind_is_cached_while_it_is_defined() -> None:
    async def scenario(member: Member) -> None:
        assert member.cache.find_table(GAMES.id) is None
        await member.client.create(DEFINITIONS, games())
        await asyncio.sleep(5)
        assert member.cache.find_table(GAMES.id) is not None
        await member.client.delete(DEFINITIONS, "", "games.play.example")
        await asyncio.sleep(5)
        assert member.cache.find_table(GAMES.id) is None

    in_a_member(scenario)


def test_custom_kind_without_scale_is_not_cached() -> None:
    async def scenario(member: Member) -> None:
        crd = games()
        del crd["spec"]["versions"][0]["subresources"]["scale"]
        await member.client.create(DEFINITIONS, crd)
        await asyncio.sleep(5)
        assert member.cache.find_table(GAMES.id) is None

    in_a_member(scenario)


def test_schemas_are_dropped_and_the_rest_of_the_crd_is_kept() -> None:
    crd = games()
    (version,) = without_schemas(crd)["spec"]["versions"]
    assert "schema" not in version
    assert version["subresources"] == crd["spec"]["versions"][0]["subresources"]
    assert "schema" in crd["spec"]["versions"][0]
