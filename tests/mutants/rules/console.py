"""Rules of the web console and of plans that are carried out later."""

from mutants.mutant import Mutant

SESSIONS, SESSION_TESTS = "console/sessions.py", ("console/test_sessions.py",)
APPLICATION, APPLICATION_TESTS = "console/application.py", ("console/test_application.py",)
APPLY, APPLY_TESTS = "cli/commands/apply_plan.py", ("cli/commands/test_apply_plan.py",)

MUTANTS = (
    Mutant(
        "A login link works once.",
        SESSIONS,
        'self._links.pop(_digest(code), (None, "", ""))',
        'self._links.get(_digest(code), (None, "", ""))',
        SESSION_TESTS,
    ),
    Mutant(
        "A login link ends.",
        SESSIONS,
        "if until is not None and self._now() < until else None",
        "if until is not None else None",
        SESSION_TESTS,
    ),
    Mutant(
        "A session that nobody uses ends.",
        SESSIONS,
        " and now < session.used + IDLE",
        "",
        SESSION_TESTS,
    ),
    Mutant(
        "A session ends at its time, however much it is used.",
        SESSIONS,
        "and now < session.created + LIFETIME and",
        "and",
        SESSION_TESTS,
    ),
    Mutant(
        "A session that was closed does not come back with a restart.",
        SESSIONS,
        "        self._stored.pop(session.digest, None)\n",
        "",
        SESSION_TESTS,
    ),
    Mutant(
        "The file of sessions has no bearer token.",
        SESSIONS,
        "_StoredSession(session.digest, user, _seal(session_id, token), now, now)",
        "_StoredSession(session.digest, user, token, now, now)",
        SESSION_TESTS,
    ),
    Mutant(
        "The number of sessions is bounded.",
        SESSIONS,
        "while len(self._sessions) >= MAX_SESSIONS:",
        "while False:",
        SESSION_TESTS,
    ),
    Mutant(
        "A form is accepted only with the token of its session.",
        APPLICATION,
        'if not session.is_bearer and not is_csrf_token(session, dict(form).get("csrf", "")):',
        "if False:",
        APPLICATION_TESTS,
    ),
    Mutant(
        "A form that another site sends is refused.",
        APPLICATION,
        '    if site != "same-origin" or (',
        "    if False and (",
        APPLICATION_TESTS,
    ),
    Mutant(
        "A read-only console carries out no action.",
        APPLICATION,
        "        if self.services.is_read_only:\n            raise",
        "        if False:\n            raise",
        APPLICATION_TESTS,
    ),
    Mutant(
        "A sign-in leads only into the console.",
        APPLICATION,
        'return target if target.startswith("/console/") and "\\\\" not in target and "//" not in target else "/console/"',
        "return target",
        APPLICATION_TESTS,
    ),
    Mutant(
        "A plan of a fleet that has changed since is not carried out.",
        APPLY,
        "if again.hash != plan.hash:",
        "if False:",
        ("cli/test_move_commands.py::test_plan_is_carried_out_once_and_refused_when_the_fleet_has_changed",),
    ),
    Mutant(
        "A plan that was edited is not carried out.",
        APPLY,
        "if digest_of(plan) != plan.hash:",
        "if False:",
        APPLY_TESTS,
    ),
    Mutant(
        "A plan about a failure is not carried out.",
        APPLY,
        "if plan.change.is_loss:",
        "if False:",
        APPLY_TESTS,
    ),
    Mutant(
        "A dangerous action needs the typed name of its object.",
        "console/actions.py",
        'if value_of(form, "confirm") != name:',
        "if False:",
        ("console/test_actions.py",),
    ),
    Mutant(
        "A cookie beside a bearer token needs the form token.",
        "console/application.py",
        "if request.bearer and not request.cookie:",
        "if request.bearer:",
        ("console/test_application.py",),
    ),
    Mutant(
        "The stream of a page ends when its user has other rights than its group.",
        "console/stream.py",
        "if not await subscriber.live.is_allowed():",
        "if False:",
        ("console/test_stream.py",),
    ),
    Mutant(
        "What several sessions get has the form token of none.",
        "console/application.py",
        '{**self.values(page, again, session), "csrf": "", "user": ""}',
        "self.values(page, again, session)",
        ("console/test_stream.py",),
    ),
    Mutant(
        "An approval releases only the move that the page has shown.",
        "console/pages/workload.py",
        'if pending is None or text_of(pending) != value_of(form, "move"):',
        "if pending is None:",
        ("console/test_application.py",),
    ),
    Mutant(
        "A plan that has changed is not started.",
        "console/pages/rebalance.py",
        'if plan.hash != value_of(form, "hash"):',
        "if False:",
        ("console/test_application.py",),
    ),
    Mutant(
        "A policy is shown only to those who may read it.",
        "console/pages/preview.py",
        'if not context.may.get("get"):',
        "if False:",
        ("console/test_application.py",),
    ),
    Mutant(
        "A client cannot name another user as the one who asked for a rebalance.",
        "server/admission/requesters.py",
        "requester = before if old is not None else attributes.caller.user.name",
        "requester = annotation_of(obj, REQUESTER) or attributes.caller.user.name",
        ("server/admission/test_requesters.py",),
    ),
)
