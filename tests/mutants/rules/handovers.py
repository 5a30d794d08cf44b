"""Rules of encryption, leases, granted evictions, plans, quotas and take-overs."""

from mutants.mutant import Mutant

ENCRYPTION, ENCRYPTION_TESTS = "server/storage/encryption.py", ("server/storage/test_encryption.py",)
SESSIONS, SESSION_TESTS = "console/sessions.py", ("console/test_sessions.py",)
LEADER, LEADER_TESTS = "runtime/leader_election.py", ("runtime/test_leader_election.py",)
VERDICT, VERDICT_TESTS = "decide/pods/budgets/eviction.py", ("decide/pods/budgets/test_eviction.py",)
PLAN_FILE, PLAN_TESTS = "cli/commands/apply_plan.py", ("cli/commands/test_apply_plan.py",)
QUOTA, QUOTA_TESTS = "controllers/quota/quota_usage.py", ("controllers/quota/test_quota_usage.py",)
OBSERVING, OBSERVING_TESTS = "runtime/observe_only.py", ("runtime/test_observe_only.py",)
ADOPT, ADOPT_TESTS = "cli/commands/adopt.py", ("cli/commands/test_adopt.py",)

MUTANTS = (
    Mutant(
        "No two values are encrypted with the same nonce.",
        ENCRYPTION,
        "secrets.token_bytes(NONCE_BYTES)",
        "bytes(NONCE_BYTES)",
        ENCRYPTION_TESTS,
    ),
    Mutant(
        "A file of encryption keys that others can read is refused.",
        ENCRYPTION,
        "if path.stat().st_mode & 0o077:",
        "if False:",
        ENCRYPTION_TESTS,
    ),
    Mutant(
        "After a rotation everything is encrypted with the first key.",
        ENCRYPTION,
        "return stored.startswith(SEALED_MARK + _id_of(secret))",
        "return is_sealed(stored)",
        ENCRYPTION_TESTS,
    ),
    Mutant(
        "Only the user of the process reads the file of sessions.",
        SESSIONS,
        "mode=0o600",
        "mode=0o644",
        SESSION_TESTS,
    ),
    Mutant(
        "The number of login links is bounded.",
        SESSIONS,
        "while len(self._links) >= MAX_LINKS:",
        "while False:",
        SESSION_TESTS,
    ),
    Mutant(
        "A process that stops leading leaves the lease of its successor alone.",
        LEADER,
        'if spec.get("holderIdentity") == self.identity:',
        "if True:",
        LEADER_TESTS,
    ),
    Mutant(
        "A lease is held from the time before the request that renewed it.",
        LEADER,
        "self._held_until = started + self._renew_deadline if claimed else None",
        "self._held_until = self._monotonic() + self._renew_deadline if claimed else None",
        LEADER_TESTS,
    ),
    Mutant(
        "Of two processes that create the lease at once, one holds it.",
        LEADER,
        "        except AlreadyExists:\n            return False",
        "        except AlreadyExists:\n            return True",
        LEADER_TESTS,
    ),
    Mutant(
        "The exemption of an unhealthy pod from a budget holds only while the pod is unchanged.",
        VERDICT,
        "        pinned_version = pod.resource_version\n        conflict",
        "        conflict",
        VERDICT_TESTS,
    ),
    Mutant(
        "A pending pod is evicted without a budget only while it is unchanged.",
        VERDICT,
        "pinned_version = pinned_version or pod.resource_version",
        "pinned_version = pinned_version or ''",
        VERDICT_TESTS,
    ),
    Mutant(
        "An eviction with the version of an earlier pod is refused.",
        VERDICT,
        "elif preconditions.resource_version and preconditions.resource_version != pod.resource_version:",
        "elif False:",
        VERDICT_TESTS,
    ),
    Mutant(
        "A budget with fewer than no disruptions left refuses an eviction.",
        VERDICT,
        "if budget.disruptions_allowed < 0:",
        "if False:",
        VERDICT_TESTS,
    ),
    Mutant(
        "An eviction uses up one of the disruptions that a budget allows.",
        VERDICT,
        "budget.disruptions_allowed - 1",
        "budget.disruptions_allowed",
        VERDICT_TESTS,
    ),
    Mutant(
        "An eviction counts in the rate of its budget.",
        VERDICT,
        "budget.rate.with_disruption(now) if budget.rate else None",
        "budget.rate",
        VERDICT_TESTS,
    ),
    Mutant(
        "A plan of another format is not carried out.",
        PLAN_FILE,
        "if plan.format != FORMAT:",
        "if False:",
        PLAN_TESTS,
    ),
    Mutant(
        "The hash of a plan covers where every replica goes.",
        "dryrun/plan_result.py",
        "(item.workload, item.action, item.cause, shares_key(item.before), shares_key(item.after))",
        "(item.workload, item.action, item.cause, shares_key(item.before))",
        ("dryrun/test_plan_result.py",),
    ),
    Mutant(
        "The hash of a plan covers what is written.",
        "dryrun/plan_result.py",
        "[plan.format, plan.profile, plan.change, sorted(rows)]",
        "[plan.format, plan.profile, sorted(rows)]",
        ("dryrun/test_plan_result.py",),
    ),
    Mutant(
        "A workload beyond a reduced FederatedResourceQuota may still shrink or stay.",
        QUOTA,
        "if delta.get(resource, 0) > 0 and total > parse_quantity(limit):",
        "if total > parse_quantity(limit):",
        QUOTA_TESTS,
    ),
    Mutant(
        "A FederatedResourceQuota that is being deleted limits nothing.",
        QUOTA,
        "if quota.spec.overall and quota.metadata.deletion_timestamp is None:",
        "if quota.spec.overall:",
        QUOTA_TESTS,
    ),
    Mutant(
        "While it cannot be read whether controllers may run, they do not.",
        OBSERVING,
        '            log.warning("cannot read whether controllers may run: %s", str(fault) or type(fault).__name__)\n',
        "            return\n",
        OBSERVING_TESTS,
    ),
    Mutant(
        "A restore asks for observing until it has begun.",
        OBSERVING,
        '        await begin_observing(client, "restored from a backup", now)\n        (directory / FILE_NAME).unlink()',
        '        (directory / FILE_NAME).unlink()\n        await begin_observing(client, "restored from a backup", now)',
        OBSERVING_TESTS,
    ),
    Mutant(
        "Nothing is taken over while the other control plane runs.",
        ADOPT,
        "if found.running and (take_over or give_back):",
        "if False:",
        ADOPT_TESTS,
    ),
    Mutant(
        "Nothing is taken over that would change anything, unless the changes are accepted.",
        ADOPT,
        "if not found.rehearsal.changes_nothing and not accept_changes:",
        "if False:",
        ADOPT_TESTS,
    ),
    Mutant(
        "While Karmada is replaced, a write needs its Leases as well.",
        "cli/support/karmada_leases.py",
        "        election.check_held()",
        "        pass",
        ("cli/support/test_karmada_leases.py",),
    ),
    Mutant(
        "A Lease of the other control plane that has expired does not count as running.",
        "cli/support/karmada_leases.py",
        "if not holder or is_expired(lease, now):",
        "if not holder:",
        ("cli/support/test_karmada_leases.py",),
    ),
    Mutant(
        "A takeover writes no member because a policy that was deleted has left its marks there.",
        "controllers/propagation/dispatch.py",
        "wanted = wanted.but(spec=before.spec)",
        "pass",
        ("controllers/propagation/test_dispatch.py",),
    ),
    Mutant(
        "A process that has released its lease writes nothing.",
        LEADER,
        "        self._held_until = None\n        try:",
        "        try:",
        LEADER_TESTS,
    ),
)
