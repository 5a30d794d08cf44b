"""The interpreter with the customizations and webhooks of users, rebuilt whenever they change."""

from collections.abc import Callable
from typing import Any, cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.interpreter import ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration
from trimtab.api.profile import Profile
from trimtab.api.value import Key, Raw
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.lua.questions import ScriptQuestion
from trimtab.interpret.operations import InterpreterFailure
from trimtab.interpret.webhook_rules import WebhookRules
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.runtime.script_answers import ScriptAnswers, ScriptRunner
from trimtab.runtime.view import CurrentInterpreter
from trimtab.runtime.webhook_answers import CallWebhook

CUSTOMIZATIONS = kind_of(ResourceInterpreterCustomization).id


class CustomizedInterpreter:
    """Keeps the interpreter current, and finds the customization to which a failing script belongs."""

    def __init__(
        self,
        cache: Cache,
        profile: Profile,
        run_script: ScriptRunner | None,
        *,
        steady_seconds: Callable[[], float],
        call_webhook: CallWebhook | None = None,
        on_change: Callable[[], None] = lambda: None,
        on_script_failure: Callable[[Key, str, InterpreterFailure], None] = lambda *_: None,
    ) -> None:
        """`on_change` is called after the interpreter was rebuilt.

        `on_script_failure` gets the key of the customization, its script that failed, and the failure.
        """
        self._cache = cache
        self._profile = profile
        self._on_change = on_change
        self._on_script_failure = on_script_failure
        self._customization_by_script: dict[str, Raw] = {}
        self.interpreter = CurrentInterpreter(Interpreter.of(profile=cast("Any", profile.name)))
        self.scripts = ScriptAnswers(
            run_script, steady_seconds=steady_seconds, on_failure=self._script_failed, call_webhook=call_webhook
        )

    def watch(self) -> None:
        """Rebuild the interpreter from now on when customizations or webhooks change."""
        self._cache.table_of(ResourceInterpreterCustomization).add_listener(self._rebuild)
        self._cache.table_of(ResourceInterpreterWebhookConfiguration).add_listener(self._rebuild)

    def _rebuild(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        raws = [entry.raw for entry in self._cache.table_of(ResourceInterpreterCustomization).entries.values()]
        self._customization_by_script = {script: raw for raw in raws for script in scripts_of(raw)}
        self.scripts.forget_failures()
        webhooks = self._cache.table_of(ResourceInterpreterWebhookConfiguration)
        configurations = [entry.raw for entry in webhooks.entries.values()]
        self.interpreter.current = Interpreter.of(
            raws,
            self.scripts,
            profile=cast("Any", self._profile.name),
            webhook=WebhookRules(configurations, self.scripts.webhooks) if configurations else None,
        )
        if new is None or not new.is_resumed:
            self._on_change()

    def _script_failed(self, question: ScriptQuestion, failure: InterpreterFailure) -> None:
        customization = self._customization_by_script.get(question.script)
        if customization is not None:
            key = Key(CUSTOMIZATIONS, "", customization["metadata"]["name"])
            failure = InterpreterFailure(failure.reason, f"{question.hook}: {failure.message}")
            self._on_script_failure(key, question.script, failure)


def scripts_of(customization: Raw) -> list[str]:
    """The scripts of all rules of a customization."""
    rules = (customization.get("spec") or {}).get("customizations") or {}
    return [rule["luaScript"] for rule in rules.values() if isinstance(rule, dict) and rule.get("luaScript")]
