"""Stories: scripts of failures that are played on a virtual clock, and what they found."""

from collections.abc import Mapping

from trimtab.client.client import Client
from trimtab.console.actions import ActionError, Form, action
from trimtab.console.page import PageContext, View, page
from trimtab.console.pulse import PULSE_TOPICS
from trimtab.console.text import path_to
from trimtab.errors import NotFound
from trimtab.server.auth.authorize import Action

STORY_PATH = "/console/stories"


def actions_of(_: PageContext) -> Mapping[str, Action]:
    """A story runs in a process of its own and writes nothing; who may post to its path may use the CPU for it."""
    return {"play": Action("post", path=STORY_PATH)}


@page("stories", "stories.html", "stories", live={"pulse": PULSE_TOPICS, "stories": ("stories",)}, actions=actions_of)
def stories(context: PageContext) -> View:
    found = context.services.stories.stories() if context.services.stories is not None else []
    words = context.query.get("q", "").lower().split()
    shown = [one for one in found if all(word in f"{one.name} {one.title}".lower() for word in words)]
    return {
        "stories": [one._asdict() for one in shown],
        "total": len(found),
        "is_available": context.services.stories is not None,
    }


@page(
    "stories/{name}", "story.html", "stories", live={"pulse": PULSE_TOPICS, "story": ("stories",)}, actions=actions_of
)
def story(context: PageContext) -> View:
    found = context.services.stories.stories() if context.services.stories is not None else []
    one = next((one for one in found if one.name == context.segments[0]), None)
    if one is None:
        raise NotFound("there is no such story")
    return {"story": one._asdict()}


@action("stories/{name}/play")
async def play(context: PageContext, client: Client, form: Form) -> str:
    (name,) = context.segments
    book = context.services.stories
    if book is None or name not in {one.name for one in book.stories()}:
        raise ActionError("there is no such story")
    if not context.may.get("play"):
        raise ActionError(f"your rights do not include post on {STORY_PATH}")
    book.play(name, context.user)
    return path_to("stories", name)


@action("stories/{name}/stop")
async def stop(context: PageContext, client: Client, form: Form) -> str:
    (name,) = context.segments
    if context.services.stories is None or not context.may.get("play"):
        raise ActionError(f"your rights do not include post on {STORY_PATH}")
    context.services.stories.stop(name)
    return path_to("stories", name)
