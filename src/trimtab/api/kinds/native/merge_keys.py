"""Facts about native fields that protobuf lacks: merge keys, published defaults, allowed values and descriptions."""

from functools import cache
from typing import NamedTuple


class MergeRule(NamedTuple):
    """How a list merges: by the keys of its items (server-side apply) and by one key (strategic merge patch)."""

    list_keys: tuple[str, ...] = ()
    patch_key: str = ""
    strategy: str = ""
    is_set: bool = False


# message: field[=list keys][~patch key][!strategy]; `=` alone means the list is a set, `~` alone a set for patches.
_MERGE_RULES = """
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
core.v1.ComponentStatus: conditions=type~type
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
flowcontrol.v1.FlowSchemaStatus: conditions=type~type
flowcontrol.v1.PriorityLevelConfigurationStatus: conditions=type~type
flowcontrol.v1.ResourcePolicyRule: verbs= apiGroups= resources= namespaces=
flowcontrol.v1.NonResourcePolicyRule: verbs= nonResourceURLs=
storage.v1.CSINodeSpec: drivers=name~name
storage.v1.CSIDriverSpec: volumeLifecycleModes=
admissionregistration.v1.MutatingWebhookConfiguration: webhooks=name~name
admissionregistration.v1.ValidatingWebhookConfiguration: webhooks=name~name
admissionregistration.v1.MutatingWebhook: matchConditions=name~name
admissionregistration.v1.ValidatingWebhook: matchConditions=name~name
apiextensions.v1.CustomResourceDefinitionStatus: conditions=type
admissionregistration.v1.ValidatingAdmissionPolicySpec: matchConditions=name~name variables=name~name
admissionregistration.v1.ValidatingAdmissionPolicyStatus: conditions=type
certificates.v1.CertificateSigningRequestStatus: conditions=type
apiregistration.v1.APIServiceStatus: conditions=type~type
apiextensions.v1.JSONSchemaProps: x-kubernetes-validations=rule~rule
"""


def _parse_merge_rule(text: str) -> tuple[str, MergeRule]:
    rest, _, strategy = text.partition("!")
    rest, tilde, patch_key = rest.partition("~")
    name, equals, keys = rest.partition("=")
    list_keys = tuple(keys.split(",")) if keys else ()
    return name, MergeRule(list_keys, patch_key, strategy or ("merge" if tilde else ""), bool(equals) and not keys)


@cache
def merge_rules() -> dict[str, dict[str, MergeRule]]:
    table: dict[str, dict[str, MergeRule]] = {}
    for line in _MERGE_RULES.strip().splitlines():
        message, _, fields = line.partition(": ")
        table.setdefault(message, {}).update(map(_parse_merge_rule, fields.split()))
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
"""Defaults that the schema publishes, by `message.field`; list keys take them too."""

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
def enum_values() -> dict[str, tuple[str, ...]]:
    """Allowed values by `message.field`, in the order the schema lists them."""
    table = {}
    for line in _ENUMS.strip().splitlines():
        field, _, values = line.partition(": ")
        table[field] = tuple(value.strip('"') for value in values.split())
    return table


KIND_DESCRIPTIONS = {
    "APIService": "Names the server of one version of an API group.",
    "CertificateSigningRequest": "A request for a certificate that somebody approves and a signer issues.",
    "Binding": "Assigns a pod to a node.",
    "ClusterRole": "A set of permissions that can be granted in one namespace or in the whole cluster.",
    "ClusterRoleBinding": "Grants a ClusterRole to subjects in the whole cluster.",
    "ComponentStatus": "Whether a component of the control plane is healthy.",
    "ConfigMap": "Configuration data for pods.",
    "ControllerRevision": "An immutable snapshot of a controller's template.",
    "CronJob": "Creates Jobs on a schedule.",
    "CSIDriver": "The capabilities of a CSI storage driver.",
    "CSINode": "The CSI drivers that run on a node.",
    "CSIStorageCapacity": "The storage that a CSI driver can still provide in a part of the cluster.",
    "CustomResourceDefinition": "Defines a custom kind and its schema.",
    "DaemonSet": "Runs one pod on every matching node.",
    "Deployment": "Runs a number of identical pods and updates them gradually.",
    "Endpoints": "The addresses behind a Service (legacy form of EndpointSlice).",
    "EndpointSlice": "A subset of the addresses behind a Service.",
    "Event": "A report of something that happened to an object.",
    "Eviction": "Requests the eviction of a pod, subject to its disruption budgets.",
    "FlowSchema": "Assigns requests to a priority level and to flows that share it fairly.",
    "HorizontalPodAutoscaler": "Changes the number of replicas of a workload according to its metrics.",
    "Ingress": "Rules that route external HTTP requests to Services.",
    "IngressClass": "The controller that implements an Ingress.",
    "Job": "Runs pods until enough of them have succeeded.",
    "Lease": "The holder of a lock, and how long it is valid.",
    "LimitRange": "Limits and defaults for the resources of objects in a namespace.",
    "LocalSubjectAccessReview": "Checks whether a subject may perform an action in one namespace.",
    "MutatingWebhookConfiguration": "Webhooks that may modify objects before they are stored.",
    "Namespace": "A scope for the names of objects.",
    "NetworkPolicy": "Defines which network traffic of pods is allowed.",
    "Node": "A machine that runs pods.",
    "NodeMetrics": "The current resource usage of a node.",
    "PersistentVolume": "A piece of storage in the cluster.",
    "PersistentVolumeClaim": "A request for storage.",
    "Pod": "Containers that run together on one node.",
    "PodDisruptionBudget": "How many pods of a set may be unavailable through voluntary disruptions.",
    "PodMetrics": "The current resource usage of a pod's containers.",
    "PodTemplate": "A template for pods.",
    "PriorityClass": "A named priority for pods.",
    "PriorityLevelConfiguration": "How many requests of one priority run at a time, and how many may wait.",
    "ReplicaSet": "Runs a number of identical pods.",
    "ReplicationController": "Runs a number of identical pods (legacy form of ReplicaSet).",
    "ResourceQuota": "Limits for the total resources of a namespace.",
    "Role": "A set of permissions in one namespace.",
    "RoleBinding": "Grants a role to subjects in one namespace.",
    "RuntimeClass": "A container runtime configuration that pods can select.",
    "Scale": "The number of replicas of a workload.",
    "Secret": "Confidential data for pods.",
    "SelfSubjectAccessReview": "Checks whether the caller may perform an action.",
    "SelfSubjectReview": "Returns the identity of the caller.",
    "SelfSubjectRulesReview": "Lists the actions that the caller may perform in a namespace.",
    "Service": "A stable address for a set of pods.",
    "ServiceAccount": "The identity that a pod uses for the API.",
    "StatefulSet": "Runs pods with stable names and storage.",
    "StorageClass": "A class of storage that claims can request.",
    "SubjectAccessReview": "Checks whether a subject may perform an action.",
    "TokenRequest": "Requests a token for a service account.",
    "TokenReview": "Returns the identity that a token belongs to.",
    "ValidatingAdmissionPolicy": "Rules in CEL that may reject objects before they are stored.",
    "ValidatingAdmissionPolicyBinding": "Applies an admission policy to some objects, with parameters.",
    "ValidatingWebhookConfiguration": "Webhooks that may reject objects before they are stored.",
    "VolumeAttachment": "A request to attach a volume to a node.",
}

FIELD_DESCRIPTIONS = {
    "activeDeadlineSeconds": "Seconds after which it is stopped.",
    "affinity": "Rules about where the pod may or should run.",
    "annotations": "Metadata for tools and people; not usable in selectors.",
    "apiVersion": "APIVersion defines the group and the version of the schema that this object follows.",
    "args": "Arguments of the command.",
    "clusterIP": "The address inside the cluster; None makes the Service headless.",
    "command": "The command to run instead of the image's entrypoint.",
    "conditions": "Observations about the object, one per type.",
    "containers": "The containers of the pod; at least one.",
    "creationTimestamp": "CreationTimestamp is a timestamp of the moment at which the server created the object.",
    "data": "The content, by key.",
    "deletionTimestamp": "When the object will be deleted; set by the server.",
    "env": "Environment variables of the container.",
    "finalizers": "Must be empty before the object is deleted; each entry is removed by its controller.",
    "generateName": "Prefix of a name that the server completes.",
    "generation": "Incremented by the server when the desired state changes.",
    "hard": "The limits, by resource.",
    "holderIdentity": "Who holds the lease.",
    "image": "The image to run.",
    "imagePullPolicy": "When the image is pulled.",
    "immutable": "When true, the content can no longer change.",
    "initContainers": "Containers that run to completion before the other containers start.",
    "involvedObject": "The object that the event is about.",
    "kind": "The kind of the object.",
    "labels": "Keys and values by which objects are selected.",
    "lastTransitionTime": "When the status last changed.",
    "limits": "The maximum amount allowed, by resource.",
    "managedFields": "Which manager owns which fields.",
    "matchExpressions": "Requirements for labels, all of which must match.",
    "matchLabels": "Labels that must have exactly these values.",
    "maxUnavailable": "How many may be unavailable at once, as a number or a percentage.",
    "message": "Human-readable details.",
    "metadata": "Standard object's metadata: name, labels, owners and other facts.",
    "minAvailable": "How many must stay available, as a number or a percentage.",
    "name": "The name, unique in its scope.",
    "namespace": "The namespace of the object.",
    "nodeName": "The node that runs the pod.",
    "nodeSelector": "Labels that the node must have.",
    "observedGeneration": "The generation that this status refers to.",
    "ownerReferences": "The owners of the object; it is deleted when all of them are deleted.",
    "phase": "The phase of the object's lifecycle.",
    "ports": "The ports.",
    "priorityClassName": "The name of the priority.",
    "progressDeadlineSeconds": "Seconds without progress after which a rollout counts as failed.",
    "reason": "A machine-readable reason in CamelCase.",
    "replicas": "The desired or observed number of pods.",
    "requests": "The minimum amount required, by resource.",
    "resources": "The requested resources.",
    "resourceVersion": "The version of the object; send it back with an update to detect conflicting changes.",
    "restartPolicy": "When containers are restarted.",
    "revisionHistoryLimit": "How many old revisions are kept.",
    "roleRef": "The role that is granted.",
    "rules": "The rules.",
    "schedulerName": "The scheduler that places the pod.",
    "selector": "Which objects belong to this one.",
    "serviceAccountName": "The service account that the pod runs as.",
    "spec": "The desired state.",
    "status": "The last observed state.",
    "strategy": "How old pods are replaced by new ones.",
    "subjects": "The users, groups and service accounts that get the role.",
    "taints": "Repel pods that do not tolerate them.",
    "template": "The template of the pods or objects to create.",
    "terminationGracePeriodSeconds": "Seconds between the request to stop a pod and killing it.",
    "tolerations": "The taints that the pod tolerates.",
    "topologySpreadConstraints": "How evenly the pods spread over zones, nodes or other domains.",
    "type": "The type.",
    "uid": "The unique identifier of the object.",
    "unhealthyPodEvictionPolicy": "When pods that are not ready may be evicted.",
    "unschedulable": "When true, no new pods are scheduled to the node.",
    "value": "The value.",
    "volumes": "Storage that the containers may mount.",
}
