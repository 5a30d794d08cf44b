"""Which control plane manages an object in a member cluster.

Two control planes can be joined to the same member and have Works for the same object. Without a mark each sees the
writes of the other as drift and writes its own again. So every object that is applied carries the id of the control
plane (`controllers/control_plane_identity.py`), and an object with another id is a conflict.
"""

from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import Work
from trimtab.api.value import Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Ref, View
from trimtab.controllers.control_plane_identity import ID_NAMESPACE, ControlPlaneIdentity, identity_of

UNKNOWN = ControlPlaneIdentity("")
ORPHAN = "Orphan"


def control_plane_identity(view: View) -> ControlPlaneIdentity:
    """The id of this control plane; empty while it is unknown, and in a profile that does not mark objects."""
    if not view.profile.mark_control_plane:
        return UNKNOWN
    namespace = view.get(Namespace, "", ID_NAMESPACE)
    return identity_of_host(namespace) if namespace is not None else UNKNOWN


def identity_of_host(namespace: Namespace) -> ControlPlaneIdentity:
    return identity_of(namespace.metadata.uid, namespace.metadata.annotations)


def with_control_plane(manifest: Raw, work: Work, view: View) -> Raw:
    """The manifest, marked with the id of this control plane, and whether the object outlives its Work.

    A cluster may leave while it does not answer. What is still in it has no Work when the cluster joins again.
    """
    own = control_plane_identity(view).own
    if not own:
        return manifest
    marks = {well_known.CONTROL_PLANE: own}
    if work.spec.preserve_resources_on_deletion:
        marks[well_known.ON_DELETION] = ORPHAN
    return well_known.with_metadata(manifest, labels={}, annotations=marks)


def is_managed(raw: Raw) -> bool:
    """Whether any control plane manages the member's object."""
    return well_known.labels_of(raw).get(well_known.MANAGED) == "true"


def foreign_control_plane(seen: Raw | None, view: View) -> str:
    """The id of the other control plane that manages the object; empty when there is none.

    A managed object without an id is not foreign: it was applied before objects were marked, or by a Karmada whose
    members are taken over.
    """
    if seen is None or not view.profile.mark_control_plane or not is_managed(seen):
        return ""
    owner = well_known.annotations_of(seen).get(well_known.CONTROL_PLANE, "")
    return "" if control_plane_identity(view).includes(owner) else owner


def is_managed_here(seen: Raw, view: View) -> bool:
    """Whether this control plane manages the object, so that it may delete or release it."""
    return is_managed(seen) and not foreign_control_plane(seen, view)


def ownership_problem(work: Work, manifest: Raw, ref: Ref, seen: Raw, cluster: str, view: View) -> str:
    """Why the object of another control plane is not overwritten; empty when it is, or when it is not foreign.

    With conflict resolution Overwrite an object is taken over once: when the Work reports it as applied and it has
    another id again, the other control plane took it back, and writing it again would never end.
    """
    owner = foreign_control_plane(seen, view)
    if not owner:
        return ""
    subject = f"{ref.kind} {well_known.qualified_name(ref)} in cluster {cluster}"
    if was_applied(work, ref):
        return (
            f"{subject} was taken over by another control plane ({owner}); remove the workload from one of the two "
            f"control planes, or run `trimtab release --take-over {owner}` if the other no longer exists"
        )
    if well_known.annotations_of(manifest).get(well_known.CONFLICT_RESOLUTION) == "overwrite":
        return ""
    return (
        f"{subject} is managed by another control plane ({owner}); remove it there, "
        "or set conflictResolution: Overwrite to take it over"
    )


def was_applied(work: Work, ref: Ref) -> bool:
    """Whether the Work reports a status of this object, so it was applied before."""
    group, _, version = ref.api_version.rpartition("/")
    return any(
        (known.group, known.version, known.kind, known.namespace, known.name)
        == (group, version, ref.kind, ref.namespace, ref.name)
        for known in (status.identifier for status in work.status.manifest_statuses)
    )
