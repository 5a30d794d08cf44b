import asyncio

from simulate.scenery import DEFINITIONS, GAMES, games, in_a_member, play
from trimtab.decide.reschedule.picture import Facts, Owner
from trimtab.runtime.sight import look
from trimtab.simulate.member import Member


def test_an_owner_of_a_kind_of_the_users_own_is_known_with_the_replicas_it_wants() -> None:
    async def story(member: Member) -> Facts:
        await member.client.create(DEFINITIONS, games())
        await asyncio.sleep(10)
        assert (await look(member.inside, stock=False)).others == []
        await play(member, 3)
        await member.client.patch(GAMES, "default", "chess", {"spec": {"size": 5}})
        return await look(member.inside, stock=False)

    facts = in_a_member(story)
    (owner,) = facts.others
    assert owner == Owner(facts.pods[0].controller.uid, "Game/chess", 5, rolling=False)
