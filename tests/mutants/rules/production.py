"""Rules of checks on a kube-apiserver."""

from mutants.mutant import Mutant

ENFORCEMENT_TESTS = ("api/admission/test_enforcement.py",)
GATE, GATE_TESTS = "webhook/eviction_gate.py", ("webhook/test_eviction_gate.py",)
CLAIMS, CLAIMS_TESTS = "runtime/member_claims.py", ("runtime/test_member_claims.py",)
CHARGES, CHARGES_TESTS = "decide/pods/budgets/unused_charges.py", ("decide/pods/budgets/test_unused_charges.py",)

MUTANTS = (
    Mutant(
        "A kube-apiserver keeps the permanent id of a policy.",
        "api/admission/policies.py",
        "&& {new}['{label}'] == {old}['{label}'])",
        ")",
        ENFORCEMENT_TESTS,
    ),
    Mutant(
        "A kube-apiserver refuses a policy for another namespace.",
        "api/admission/policies.py",
        "s.namespace == '' || s.namespace == object.metadata.namespace",
        "s.namespace == '' || true",
        ENFORCEMENT_TESTS,
    ),
    Mutant(
        "A kube-apiserver keeps the scheduler of a policy.",
        "api/schema/policy_rules.py",
        '"self == oldSelf", "the schedulerName',
        '"true", "the schedulerName',
        ENFORCEMENT_TESTS,
    ),
    Mutant(
        "An eviction that is only tried is charged nothing, also when only its options say so.",
        GATE,
        'dry_run=review.dry_run or "All" in (options.get("dryRun") or ())',
        "dry_run=review.dry_run",
        GATE_TESTS,
    ),
    Mutant(
        "An eviction that a budget refuses is refused by the webhook.",
        GATE,
        "if verdict.refusal is not None:",
        "if False:",
        GATE_TESTS,
    ),
    Mutant(
        "Charges are given back when another budget cannot be charged.",
        GATE,
        "            await self._give_back(charged)\n",
        "",
        GATE_TESTS,
    ),
    Mutant(
        "A client is not made to sleep for the whole period of a rate.",
        GATE,
        "min(refusal.retry_after or MAX_RETRY_SECONDS, MAX_RETRY_SECONDS)",
        "refusal.retry_after or MAX_RETRY_SECONDS",
        GATE_TESTS,
    ),
    Mutant(
        "A webhook that cannot decide does not refuse in the name of a budget.",
        "webhook/application.py",
        'return 500, b"cannot decide: the API server does not answer as expected"',
        "return 200, refusing_response(review, BadRequest(str(fault)))",
        ("webhook/test_application.py",),
    ),
    Mutant(
        "The charge of an eviction that may have happened is kept.",
        CHARGES,
        "pod.metadata.deletion_timestamp is None and (created is None or created <= charged)",
        "True",
        CHARGES_TESTS,
    ),
    Mutant(
        "The charge of an eviction that did not happen is given back.",
        CHARGES,
        "if not unused:",
        "if True:",
        CHARGES_TESTS,
    ),
    Mutant(
        "A pod never gets a second PodDisruptionBudget, with which nobody could evict it.",
        "controllers/pods/budget_floor.py",
        "if any(selects(other, pod) for other in others for pod in pods):",
        "if False:",
        ("controllers/pods/test_budget_floor.py",),
    ),
    Mutant(
        "An API server trusts a new authority before it signs the certificate of the webhook.",
        "webhook/certificates.py",
        "return present._replace(authority=authority, bundle=authority.certificate + present.authority.certificate)",
        "return present._replace(authority=authority, bundle=authority.certificate)",
        ("webhook/test_certificates.py",),
    ),
    Mutant(
        "The webhook presents a certificate only after the configurations trust its authority.",
        "webhook/certificates.py",
        "        await self._write_bundle(certificates.bundle)\n",
        "",
        ("webhook/test_certificates.py",),
    ),
    Mutant(
        "The Lease of a member is never taken from a live holder.",
        CLAIMS,
        "(lease is not None and _holder(lease) and not self._is_expired(lease))",
        "False",
        CLAIMS_TESTS,
    ),
    Mutant(
        "A process writes to a member only while it holds its Lease.",
        CLAIMS,
        "if self._monotonic() >= self._held_until.get(member, 0.0):",
        "if False:",
        CLAIMS_TESTS,
    ),
    Mutant(
        "A process that cannot renew the Lease of a member stops serving it.",
        CLAIMS,
        "            if self._monotonic() >= until:\n",
        "            if False:\n",
        CLAIMS_TESTS,
    ),
    Mutant(
        "A process that has more than its share hands members over.",
        CLAIMS,
        "                await self._hand_over(leases)\n",
        "",
        CLAIMS_TESTS,
    ),
    Mutant(
        "A process that shares members serves only those that it owns.",
        "controllers/clusters/served.py",
        "(owned is None or cluster.name in owned)",
        "True",
        ("controllers/clusters/test_served.py",),
    ),
    Mutant(
        "A member whose Lease nobody holds is reported.",
        "controllers/clusters/ownership.py",
        'return (lease.spec.holder_identity, left + 0.1) if left > 0 else ("", seconds)',
        "return lease.spec.holder_identity, seconds",
        ("controllers/clusters/test_ownership.py",),
    ),
    Mutant(
        "The rate of a PodDisruptionBudget is written for the version that was read.",
        "webhook/eviction_gate.py",
        '            "resourceVersion": budget.metadata.resource_version,\n',
        "",
        ("webhook/test_eviction_gate.py",),
    ),
    Mutant(
        "The webhook does not count a terminating pod as healthy.",
        "webhook/eviction_gate.py",
        "        and pod.metadata.deletion_timestamp is None\n        and pod.name",
        "        and pod.name",
        ("webhook/test_eviction_gate.py",),
    ),
    Mutant(
        "Charges are given back however the eviction fails.",
        "webhook/eviction_gate.py",
        "        except BaseException:\n            await self._give_back",
        "        except Conflict:\n            await self._give_back",
        ("webhook/test_eviction_gate.py",),
    ),
    Mutant(
        "Charges are given back only to the version that was written.",
        "webhook/eviction_gate.py",
        "before.metadata.but(resource_version=after.metadata.resource_version)",
        'before.metadata.but(resource_version="")',
        ("webhook/test_eviction_gate.py",),
    ),
)
