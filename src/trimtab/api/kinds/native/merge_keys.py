"""What protobuf does not say about native fields: how lists and maps merge, which values are allowed, what they mean."""

from functools import cache
from typing import NamedTuple


class Merge(NamedTuple):
    """How a list merges: by the keys of its items (server-side apply) and by one key (strategic merge patch)."""

    list_keys: tuple[str, ...] = ()
    patch_key: str = ""
    strategy: str = ""
    is_set: bool = False


# message: field[=list keys][~patch key][!strategy]; `=` alone means the list is a set, `~` alone a set for patches.
_MERGES = """
meta.v1.ObjectMeta: finalizers=~ ownerReferences=uid~uid
core.v1.PodSpec: volumes=name~name!merge,retainKeys containers=name~name initContainers=name~name
core.v1.PodSpec: ephemeralContainers=name~name imagePullSecrets=name~name hostAliases=ip~ip
core.v1.PodSpec: topologySpreadConstraints=topologyKey,whenUnsatisfiable~topologyKey schedulingGates=name~name
core.v1.PodSpec: resourceClaims=name~name!merge,retainKeys evictionResponders=name~name
core.v1.PodStatus: conditions=type~type podIPs=ip~ip hostIPs~ip resourceClaimStatuses=name~name!merge,retainKeys
core.v1.Container: ports=containerPort,protocol~containerPort env=name~name volumeMounts=mountPath~mountPath
core.v1.Container: volumeDevices=devicePath~devicePath
core.v1.EphemeralContainerCommon: ports=containerPort,protocol~containerPort env=name~name
core.v1.EphemeralContainerCommon: volumeMounts=mountPath~mountPath volumeDevices=devicePath~devicePath
core.v1.ContainerStatus: volumeMounts=mountPath~mountPath allocatedResourcesStatus=name~name
core.v1.ResourceRequirements: claims=name
core.v1.ResourceStatus: resources=resourceID
core.v1.NodeSpec: podCIDRs=~
core.v1.NodeStatus: conditions=type~type addresses=type~type
core.v1.NamespaceStatus: conditions=type~type
core.v1.ServiceSpec: ports=port,protocol~port
core.v1.ServiceStatus: conditions=type~type
core.v1.ServiceAccount: secrets=name~name
core.v1.PersistentVolumeClaimStatus: conditions=type~type
core.v1.ReplicationControllerStatus: conditions=type~type
apps.v1.DeploymentStatus: conditions=type~type
apps.v1.ReplicaSetStatus: conditions=type~type
apps.v1.StatefulSetStatus: conditions=type~type
apps.v1.DaemonSetStatus: conditions=type~type
apps.v1.DeploymentSpec: strategy!retainKeys
batch.v1.JobStatus: conditions~type
batch.v1.PodFailurePolicyOnExitCodesRequirement: values=
batch.v1.UncountedTerminatedPods: succeeded= failed=
policy.v1.PodDisruptionBudgetStatus: conditions=type~type
policy.v1.PodDisruptionBudgetSpec: selector!replace
autoscaling.v2.HorizontalPodAutoscalerStatus: conditions=type~type
discovery.v1.Endpoint: addresses=
storage.v1.CSINodeSpec: drivers=name~name
storage.v1.CSIDriverSpec: volumeLifecycleModes=
admissionregistration.v1.MutatingWebhookConfiguration: webhooks=name~name
admissionregistration.v1.ValidatingWebhookConfiguration: webhooks=name~name
admissionregistration.v1.MutatingWebhook: matchConditions=name~name
admissionregistration.v1.ValidatingWebhook: matchConditions=name~name
apiextensions.v1.CustomResourceDefinitionStatus: conditions=type
apiextensions.v1.JSONSchemaProps: x-kubernetes-validations=rule~rule
"""


def _merge(text: str) -> tuple[str, Merge]:
    rest, _, strategy = text.partition("!")
    rest, tilde, patch_key = rest.partition("~")
    name, equals, keys = rest.partition("=")
    list_keys = tuple(keys.split(",")) if keys else ()
    return name, Merge(list_keys, patch_key, strategy or ("merge" if tilde else ""), bool(equals) and not keys)


@cache
def merges() -> dict[str, dict[str, Merge]]:
    table: dict[str, dict[str, Merge]] = {}
    for line in _MERGES.strip().splitlines():
        message, _, fields = line.partition(": ")
        table.setdefault(message, {}).update(map(_merge, fields.split()))
    return table


DEFAULTS: dict[str, str | int | bool] = {
    "apps.v1.StatefulSetOrdinals.start": 0,
    "core.v1.AzureDiskVolumeSource.cachingMode": "ReadWrite",
    "core.v1.AzureDiskVolumeSource.fsType": "ext4",
    "core.v1.AzureDiskVolumeSource.kind": "Shared",
    "core.v1.AzureDiskVolumeSource.readOnly": False,
    "core.v1.ConfigMapEnvSource.name": "",
    "core.v1.ConfigMapKeySelector.name": "",
    "core.v1.ConfigMapProjection.name": "",
    "core.v1.ConfigMapVolumeSource.name": "",
    "core.v1.ContainerPort.protocol": "TCP",
    "core.v1.GRPCAction.service": "",
    "core.v1.ISCSIPersistentVolumeSource.iscsiInterface": "default",
    "core.v1.ISCSIVolumeSource.iscsiInterface": "default",
    "core.v1.LocalObjectReference.name": "",
    "core.v1.RBDPersistentVolumeSource.keyring": "/etc/ceph/keyring",
    "core.v1.RBDPersistentVolumeSource.pool": "rbd",
    "core.v1.RBDPersistentVolumeSource.user": "admin",
    "core.v1.RBDVolumeSource.keyring": "/etc/ceph/keyring",
    "core.v1.RBDVolumeSource.pool": "rbd",
    "core.v1.RBDVolumeSource.user": "admin",
    "core.v1.ScaleIOPersistentVolumeSource.fsType": "xfs",
    "core.v1.ScaleIOPersistentVolumeSource.storageMode": "ThinProvisioned",
    "core.v1.ScaleIOVolumeSource.fsType": "xfs",
    "core.v1.ScaleIOVolumeSource.storageMode": "ThinProvisioned",
    "core.v1.SecretEnvSource.name": "",
    "core.v1.SecretKeySelector.name": "",
    "core.v1.SecretProjection.name": "",
    "core.v1.ServicePort.protocol": "TCP",
}
"""Defaults that the schema itself publishes, by `message.field`; list keys take them too."""

ATOMIC_MESSAGES = frozenset(
    {
        "meta.v1.LabelSelector",
        "meta.v1.OwnerReference",
        "core.v1.LocalObjectReference",
        "core.v1.ObjectReference",
        "core.v1.SecretReference",
        "core.v1.TypedLocalObjectReference",
        "core.v1.NodeSelector",
        "core.v1.NodeSelectorTerm",
        "core.v1.TopologySelectorTerm",
        "core.v1.ConfigMapKeySelector",
        "core.v1.SecretKeySelector",
        "core.v1.FileKeySelector",
        "core.v1.ObjectFieldSelector",
        "core.v1.ResourceFieldSelector",
        "core.v1.ScopeSelector",
        "core.v1.EndpointAddress",
        "core.v1.EndpointPort",
        "discovery.v1.EndpointPort",
        "networking.v1.ServiceBackendPort",
        "autoscaling.v1.CrossVersionObjectReference",
        "rbac.v1.RoleRef",
        "rbac.v1.Subject",
    }
)
ATOMIC_MAPS = frozenset(
    {
        "core.v1.PodSpec.nodeSelector",
        "core.v1.ServiceSpec.selector",
        "core.v1.ReplicationControllerSpec.selector",
        "node.v1.Scheduling.nodeSelector",
    }
)
GRANULAR_FIELDS = frozenset(
    {"core.v1.PersistentVolumeSpec.claimRef", "core.v1.PersistentVolumeClaimStatus.allocatedResourceStatuses"}
)

_ENUMS = """
core.v1.PodSpec.restartPolicy: Always Never OnFailure
core.v1.PodSpec.dnsPolicy: ClusterFirst ClusterFirstWithHostNet Default None
core.v1.PodSpec.preemptionPolicy: Never PreemptLowerPriority
core.v1.PodStatus.phase: Failed Pending Running Succeeded Unknown
core.v1.PodStatus.qosClass: BestEffort Burstable Guaranteed
core.v1.Container.imagePullPolicy: Always IfNotPresent Never
core.v1.Container.terminationMessagePolicy: FallbackToLogsOnError File
core.v1.EphemeralContainerCommon.imagePullPolicy: Always IfNotPresent Never
core.v1.EphemeralContainerCommon.terminationMessagePolicy: FallbackToLogsOnError File
core.v1.ContainerPort.protocol: SCTP TCP UDP
core.v1.ServicePort.protocol: SCTP TCP UDP
core.v1.EndpointPort.protocol: SCTP TCP UDP
core.v1.ServiceSpec.type: ClusterIP ExternalName LoadBalancer NodePort
core.v1.ServiceSpec.sessionAffinity: ClientIP None
core.v1.ServiceSpec.externalTrafficPolicy: Cluster Local
core.v1.ServiceSpec.internalTrafficPolicy: Cluster Local
core.v1.ServiceSpec.ipFamilyPolicy: PreferDualStack RequireDualStack SingleStack
core.v1.Taint.effect: NoExecute NoSchedule PreferNoSchedule
core.v1.Toleration.effect: NoExecute NoSchedule PreferNoSchedule
core.v1.Toleration.operator: Equal Exists
core.v1.NodeSelectorRequirement.operator: DoesNotExist Exists Gt In Lt NotIn
core.v1.TopologySpreadConstraint.whenUnsatisfiable: DoNotSchedule ScheduleAnyway
core.v1.TopologySpreadConstraint.nodeAffinityPolicy: Honor Ignore
core.v1.TopologySpreadConstraint.nodeTaintsPolicy: Honor Ignore
core.v1.NamespaceStatus.phase: Active Terminating
core.v1.HTTPGetAction.scheme: HTTP HTTPS
core.v1.SeccompProfile.type: Localhost RuntimeDefault Unconfined
core.v1.AppArmorProfile.type: Localhost RuntimeDefault Unconfined
core.v1.HostPathVolumeSource.type: "" BlockDevice CharDevice Directory DirectoryOrCreate File FileOrCreate Socket
core.v1.PersistentVolumeClaimSpec.volumeMode: Block Filesystem
core.v1.PersistentVolumeClaimStatus.phase: Bound Lost Pending
core.v1.PersistentVolumeSpec.persistentVolumeReclaimPolicy: Delete Recycle Retain
core.v1.PersistentVolumeSpec.volumeMode: Block Filesystem
core.v1.PersistentVolumeStatus.phase: Available Bound Failed Pending Released
core.v1.ScopedResourceSelectorRequirement.operator: DoesNotExist Exists In NotIn
core.v1.SecurityContext.procMount: Default Unmasked
core.v1.PodSecurityContext.fsGroupChangePolicy: Always OnRootMismatch
core.v1.VolumeMount.mountPropagation: Bidirectional HostToContainer None
apps.v1.DeploymentStrategy.type: Recreate RollingUpdate
apps.v1.StatefulSetUpdateStrategy.type: OnDelete RollingUpdate
apps.v1.DaemonSetUpdateStrategy.type: OnDelete RollingUpdate
apps.v1.StatefulSetSpec.podManagementPolicy: OrderedReady Parallel
batch.v1.JobSpec.completionMode: Indexed NonIndexed
batch.v1.JobSpec.podReplacementPolicy: Failed TerminatingOrFailed
batch.v1.CronJobSpec.concurrencyPolicy: Allow Forbid Replace
batch.v1.PodFailurePolicyRule.action: Count FailIndex FailJob Ignore
batch.v1.PodFailurePolicyOnExitCodesRequirement.operator: In NotIn
policy.v1.PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy: AlwaysAllow IfHealthyBudget
scheduling.v1.PriorityClass.preemptionPolicy: Never PreemptLowerPriority
networking.v1.HTTPIngressPath.pathType: Exact ImplementationSpecific Prefix
networking.v1.NetworkPolicySpec.policyTypes: Egress Ingress
networking.v1.NetworkPolicyPort.protocol: SCTP TCP UDP
storage.v1.StorageClass.reclaimPolicy: Delete Recycle Retain
storage.v1.StorageClass.volumeBindingMode: Immediate WaitForFirstConsumer
discovery.v1.EndpointSlice.addressType: FQDN IPv4 IPv6
admissionregistration.v1.MutatingWebhook.failurePolicy: Fail Ignore
admissionregistration.v1.ValidatingWebhook.failurePolicy: Fail Ignore
admissionregistration.v1.MutatingWebhook.matchPolicy: Equivalent Exact
admissionregistration.v1.ValidatingWebhook.matchPolicy: Equivalent Exact
admissionregistration.v1.MutatingWebhook.reinvocationPolicy: IfNeeded Never
admissionregistration.v1.MutatingWebhook.sideEffects: None NoneOnDryRun Some Unknown
admissionregistration.v1.ValidatingWebhook.sideEffects: None NoneOnDryRun Some Unknown
admissionregistration.v1.RuleWithOperations.operations: * CONNECT CREATE DELETE UPDATE
core.v1.AzureDiskVolumeSource.cachingMode: None ReadOnly ReadWrite
core.v1.AzureDiskVolumeSource.kind: Dedicated Managed Shared
core.v1.ImageVolumeSource.pullPolicy: Always IfNotPresent Never
core.v1.ModifyVolumeStatus.status: InProgress Infeasible Pending
core.v1.NodeStatus.phase: Pending Running Terminated
core.v1.PersistentVolumeClaimSpec.accessModes: ReadOnlyMany ReadWriteMany ReadWriteOnce ReadWriteOncePod
core.v1.PersistentVolumeClaimStatus.accessModes: ReadOnlyMany ReadWriteMany ReadWriteOnce ReadWriteOncePod
core.v1.PersistentVolumeSpec.accessModes: ReadOnlyMany ReadWriteMany ReadWriteOnce ReadWriteOncePod
core.v1.PodSecurityContext.supplementalGroupsPolicy: Merge Strict
core.v1.PortStatus.protocol: SCTP TCP UDP
core.v1.ResourceQuotaSpec.scopes: BestEffort CrossNamespacePodAffinity NotBestEffort NotTerminating PriorityClass Terminating
core.v1.ScopedResourceSelectorRequirement.scopeName: BestEffort CrossNamespacePodAffinity NotBestEffort NotTerminating PriorityClass Terminating
core.v1.ServiceSpec.ipFamilies: "" IPv4 IPv6
discovery.v1.EndpointPort.protocol: SCTP TCP UDP
networking.v1.IngressPortStatus.protocol: SCTP TCP UDP
apiextensions.v1.ValidationRule.reason: FieldValueDuplicate FieldValueForbidden FieldValueInvalid FieldValueRequired
"""


@cache
def enums() -> dict[str, tuple[str, ...]]:
    """Allowed values by `message.field`, in the order the schema lists them."""
    table = {}
    for line in _ENUMS.strip().splitlines():
        field, _, values = line.partition(": ")
        table[field] = tuple(value.strip('"') for value in values.split())
    return table


KIND_TEXTS = {
    "Binding": "Ties a pod to the node that will run it.",
    "ClusterRole": "A named set of permissions that may be granted anywhere or cluster-wide.",
    "ClusterRoleBinding": "Grants a ClusterRole to subjects in the whole cluster.",
    "ConfigMap": "Configuration that pods read, kept apart from their images.",
    "ControllerRevision": "An unchanging snapshot of a controller's template.",
    "CronJob": "Makes Jobs at the times of a schedule.",
    "CSIDriver": "Tells the cluster what a storage driver can do.",
    "CSINode": "The storage drivers that a node runs.",
    "CustomResourceDefinition": "Declares a kind of your own, served beside the native ones.",
    "DaemonSet": "Keeps one pod on every node that fits.",
    "Deployment": "Keeps a number of equal pods running and changes them step by step.",
    "Endpoints": "The addresses behind a Service, in the older form.",
    "EndpointSlice": "A part of the addresses behind a Service.",
    "Event": "Something that happened to an object, told to people.",
    "Eviction": "Asks for a pod to go, unless a disruption budget forbids it.",
    "HorizontalPodAutoscaler": "Changes the number of replicas of a workload as its metrics change.",
    "Ingress": "Rules that lead requests from outside to Services.",
    "IngressClass": "Names the controller that serves an Ingress.",
    "Job": "Runs pods until enough of them have finished well.",
    "Lease": "Says who holds a lock, and until when.",
    "LimitRange": "Bounds and defaults for the resources of objects in a namespace.",
    "LocalSubjectAccessReview": "Asks whether somebody may do something in one namespace.",
    "MutatingWebhookConfiguration": "Webhooks that may change objects before they are kept.",
    "Namespace": "A room of its own for names.",
    "NetworkPolicy": "Says which traffic pods may have.",
    "Node": "A machine that runs pods.",
    "NodeMetrics": "How much of a node is used at this moment.",
    "PersistentVolume": "A piece of storage in the cluster.",
    "PersistentVolumeClaim": "A wish for storage.",
    "Pod": "Containers that run together on one node.",
    "PodDisruptionBudget": "How many pods of a set may be down on purpose at once.",
    "PodMetrics": "How much the containers of a pod use at this moment.",
    "PodTemplate": "A pattern for pods.",
    "PriorityClass": "A name for a priority that pods may have.",
    "ReplicaSet": "Keeps a number of equal pods running.",
    "ReplicationController": "Keeps a number of equal pods running, in the older form.",
    "ResourceQuota": "How much a namespace may use.",
    "Role": "A named set of permissions in one namespace.",
    "RoleBinding": "Grants a role to subjects in one namespace.",
    "RuntimeClass": "A way of running containers that pods may choose.",
    "Scale": "The number of replicas of a workload, and nothing else.",
    "Secret": "Confidential data that pods read.",
    "SelfSubjectAccessReview": "Asks whether you may do something.",
    "SelfSubjectReview": "Asks who you are.",
    "SelfSubjectRulesReview": "Asks what you may do in a namespace.",
    "Service": "One address for a set of pods.",
    "ServiceAccount": "Who a pod is when it talks to the API.",
    "StatefulSet": "Keeps pods with stable names and storage.",
    "StorageClass": "A kind of storage that claims may ask for.",
    "SubjectAccessReview": "Asks whether somebody may do something.",
    "TokenRequest": "Asks for a token of a service account.",
    "TokenReview": "Asks whose token this is.",
    "ValidatingWebhookConfiguration": "Webhooks that may refuse objects before they are kept.",
    "VolumeAttachment": "The wish that a volume be attached to a node.",
}

FIELD_TEXTS = {
    "activeDeadlineSeconds": "Seconds after which it is stopped.",
    "affinity": "Rules about where the pod may or should run.",
    "annotations": "Notes for tools and people; they select nothing.",
    "apiVersion": "The version of the schema of this object.",
    "args": "Arguments of the command.",
    "clusterIP": "The address inside the cluster; None makes the Service headless.",
    "command": "The program to run, instead of the image's own.",
    "conditions": "Observations about the object, one per type.",
    "containers": "The containers of the pod; at least one.",
    "creationTimestamp": "When the server made the object.",
    "data": "The content, by key.",
    "deletionTimestamp": "When the object will be gone; set by the server.",
    "env": "Environment variables of the container.",
    "finalizers": "Who must agree before the object is removed.",
    "generateName": "Start of a name that the server completes.",
    "generation": "Counts the changes of what is wanted.",
    "hard": "The limits, by resource.",
    "holderIdentity": "Who holds the lease.",
    "image": "The image to run.",
    "imagePullPolicy": "When the image is fetched.",
    "immutable": "When true, the content can no longer change.",
    "initContainers": "Containers that run to their end before the others start.",
    "involvedObject": "The object that the event is about.",
    "kind": "The kind of the object.",
    "labels": "Keys and values by which objects are selected.",
    "lastTransitionTime": "When the status last changed.",
    "limits": "The most that may be used, by resource.",
    "managedFields": "Which manager owns which fields.",
    "matchExpressions": "Rules about labels, all of which must hold.",
    "matchLabels": "Labels that must have exactly these values.",
    "maxUnavailable": "How many may be down at once, as a number or a percentage.",
    "message": "The details, for people.",
    "metadata": "Name, namespace, labels and what the server keeps about every object.",
    "minAvailable": "How many must stay up, as a number or a percentage.",
    "name": "The name, unique among its neighbours.",
    "namespace": "The namespace the object lives in.",
    "nodeName": "The node that runs the pod.",
    "nodeSelector": "Labels that the node must have.",
    "observedGeneration": "The generation that this status speaks of.",
    "ownerReferences": "Objects that this one depends on; it goes when all of them are gone.",
    "phase": "Where the object stands in its life.",
    "ports": "The ports.",
    "priorityClassName": "The name of the priority.",
    "progressDeadlineSeconds": "Seconds without progress after which a rollout counts as failed.",
    "reason": "Why, in one word for machines.",
    "replicas": "How many pods are wanted, or were seen.",
    "requests": "What is needed at least, by resource.",
    "resources": "The resources that are asked for.",
    "resourceVersion": "The version of the object; send it back to change only what you saw.",
    "restartPolicy": "When containers are started again.",
    "revisionHistoryLimit": "How many old revisions are kept.",
    "roleRef": "The role that is granted.",
    "rules": "The rules.",
    "schedulerName": "The scheduler that places the pod.",
    "selector": "Which objects belong to this one.",
    "serviceAccountName": "The service account the pod acts as.",
    "spec": "What is wanted.",
    "status": "What was last observed.",
    "strategy": "How old pods give way to new ones.",
    "subjects": "Who is meant: users, groups and service accounts.",
    "taints": "What keeps pods away from the node, unless they tolerate it.",
    "template": "The pattern of the pods or objects to make.",
    "terminationGracePeriodSeconds": "Seconds between asking a pod to stop and killing it.",
    "tolerations": "The taints that the pod tolerates.",
    "topologySpreadConstraints": "How evenly the pods spread over zones, nodes or other domains.",
    "type": "The type.",
    "uid": "The identity of the object, unique in space and time.",
    "unhealthyPodEvictionPolicy": "When pods that are not ready may be evicted.",
    "unschedulable": "When true, no new pods come to the node.",
    "value": "The value.",
    "volumes": "Storage that the containers may mount.",
}
