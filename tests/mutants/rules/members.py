"""Rules of what is written to and deleted from member clusters."""

from mutants.mutant import Mutant

DROPPED_TESTS = ("controllers/propagation/test_work_removal.py",)
REMOVAL, REMOVAL_TESTS = (
    "controllers/propagation/work_removal.py",
    ("controllers/propagation/test_execute.py", "controllers/propagation/test_execute_departure.py"),
)
OWNERSHIP, OWNERSHIP_TESTS = (
    "controllers/propagation/object_ownership.py",
    ("controllers/propagation/test_object_ownership.py",),
)

MUTANTS = (
    Mutant(
        "Only objects that this control plane manages are deleted with their Work.",
        REMOVAL,
        "if seen is not None and is_managed_here(seen, view):",
        "if seen is not None:",
        REMOVAL_TESTS,
    ),
    Mutant(
        "An object that its policy preserves is released, not deleted.",
        REMOVAL,
        "stays = work.spec.preserve_resources_on_deletion or is_orphaned_on_deletion(manifest)",
        "stays = False",
        REMOVAL_TESTS,
    ),
    Mutant(
        "An object that existed before its Work is not deleted when the cluster leaves.",
        REMOVAL,
        "if well_known.ADOPTED in well_known.annotations_of(seen):",
        "if False:",
        REMOVAL_TESTS,
    ),
    Mutant(
        "A namespace with objects of others is not deleted when the cluster leaves.",
        REMOVAL,
        "return bool(known.names)",
        "return False",
        REMOVAL_TESTS,
    ),
    Mutant(
        "The finalizer of a Work stays while its cluster does not answer.",
        REMOVAL,
        "if cluster is not None and not is_ready(cluster) and awaits_recovery(cluster, view):",
        "if False:",
        REMOVAL_TESTS,
    ),
    Mutant(
        "Of the manifests dropped from a Work, only objects of this Work are deleted.",
        REMOVAL,
        "if well_known.annotations_of(seen).get(well_known.WORK_NAME) == work.name and is_managed_here(seen, view):",
        "if is_managed_here(seen, view):",
        DROPPED_TESTS,
    ),
    Mutant(
        "An object of another control plane is not overwritten.",
        OWNERSHIP,
        'return "" if owner == control_plane_id(view) else owner',
        'return ""',
        OWNERSHIP_TESTS,
    ),
    Mutant(
        "An object that another control plane took back is not taken over again.",
        OWNERSHIP,
        "if was_applied(work, ref):",
        "if False:",
        OWNERSHIP_TESTS,
    ),
    Mutant(
        "A Work whose binding exists is no orphan.",
        "controllers/propagation/orphan_works.py",
        "if work.metadata.deletion_timestamp is not None or not is_orphan(work, view):",
        "if work.metadata.deletion_timestamp is not None:",
        ("controllers/propagation/test_orphan_works.py",),
    ),
    Mutant(
        "An orphaned Work is deleted only after a grace period.",
        "controllers/propagation/orphan_works.py",
        "if age < GRACE_SECONDS:",
        "if False:",
        ("controllers/propagation/test_orphan_works.py",),
    ),
    Mutant(
        "Of several control planes only the holder of the lease runs its controllers.",
        "runtime/leader_election.py",
        'if holder not in ("", self.identity) and not self._is_expired(lease, self._steady_clock.now()):',
        "if False:",
        ("runtime/test_leader_election.py",),
    ),
    Mutant(
        "A leader that cannot renew its lease in time stops.",
        "runtime/leader_election.py",
        "while (left := self._seconds_left()) > 0:",
        "while (left := 1.0) > 0:",
        ("runtime/test_leader_election.py",),
    ),
    Mutant(
        "A process that was stopped longer than its lease writes nothing.",
        "runtime/leader_election.py",
        "if self._seconds_left() <= 0:",
        "if False:",
        ("runtime/test_leader_election.py",),
    ),
    Mutant(
        "The age of a lease is measured since it was seen to change, not by the clock of its holder.",
        "runtime/leader_election.py",
        "if self._last_change is None or self._last_change[0] != version:",
        "if self._last_change is None:",
        ("runtime/test_leader_election.py",),
    ),
    Mutant(
        "A reconcile does not write from a version that has changed since it was read.",
        "runtime/host_effects.py",
        "if entry.revision != wanted.metadata.resource_version:",
        "if False:",
        ("runtime/test_effects.py",),
    ),
    Mutant(
        "A write carries the version from which it was computed.",
        "runtime/commit.py",
        'return patch | {"metadata": (patch.get("metadata") or {}) | {"resourceVersion": revision}}',
        "return patch",
        ("runtime/test_commit.py", "runtime/test_effects.py"),
    ),
    Mutant(
        "A controller changes only the fields that it declares.",
        "runtime/commit.py",
        "if prefixes is not None and (foreign := _first_path_outside(prefixes, patch, raw or {})):",
        "if False:",
        ("runtime/test_commit.py",),
    ),
    Mutant(
        "After a conflict a begun write goes on only if nobody changed the same fields.",
        "runtime/host_effects.py",
        "if not is_same_in_patched_fields(write.patch, latest, newer):",
        "if False:",
        ("runtime/test_effects.py",),
    ),
    Mutant(
        "A deletion names the uid of the object that was read.",
        "runtime/object_writer.py",
        "await client.delete(resource, ref.namespace, ref.name, uid=ref.uid, revision=revision)",
        "await client.delete(resource, ref.namespace, ref.name, revision=revision)",
        ("runtime/test_effects.py",),
    ),
    Mutant(
        "No key is reconciled twice at the same time.",
        "runtime/queue.py",
        "if key in self._processing:",
        "if False:",
        ("runtime/test_queue.py",),
    ),
    Mutant(
        "A script cannot read attributes of Python objects.",
        "interpret/lua/sandbox.py",
        "            attribute_filter=_refuse_attribute,\n",
        "",
        ("interpret/lua/test_sandbox.py",),
    ),
    Mutant(
        "A script ends after a limited number of instructions.",
        "interpret/lua/sandbox.py",
        '{"left": limits.instructions,',
        '{"left": limits.instructions * 1000,',
        ("interpret/lua/test_sandbox.py",),
    ),
    Mutant(
        "A script that is precompiled is not run.",
        "interpret/lua/sandbox.py",
        "    if script.startswith(_PRECOMPILED):\n        return _PRECOMPILED_FAILURE\n    try:\n        return _Sandbox",
        "    try:\n        return _Sandbox",
        ("interpret/lua/test_sandbox.py",),
    ),
)
