"""Rules of checks on a kube-apiserver."""

from mutants.mutant import Mutant

ENFORCEMENT_TESTS = ("api/admission/test_enforcement.py",)

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
)
