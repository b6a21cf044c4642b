"""Where the sandbox differs from a real API server, and why; nothing else may.

The replay fails for a case that is named here and no longer differs.
"""

KNOWN: dict[str, tuple[str, ...]] = {
    "server-side apply is refused by the sandbox (415)": (
        "map-apply",
        "resize-apply-without-manager",
    ),
    "the refusal quotes the sets of fields of managedFields, which the sandbox doesn't keep": (
        "fields-pod-merge-strict",
    ),
    "the decoder words its own refusals of broken JSON and wrong types": (
        "create-deployments-replicas-text",
        "create-replicasets-replicas-text",
        "create-statefulsets-replicas-text",
        "hook-mutating-bad-object",
        "lease-duration-text",
        "map-number",
        "pod-create-array",
        "pod-create-bad-quantity",
        "pod-create-containers-object",
        "pod-create-labels-number",
        "pod-create-name-number",
        "pod-create-not-json",
        "pod-create-spec-text",
        "pod-delete-bad-body",
        "resize-json-patch-unreadable",
        "resize-merge-unreadable",
        "resize-strategic-unreadable",
    ),
    "the fields that pods need and no VPA looks at are not checked": (
        "pod-change-container-name",
        "pod-change-grace",
        "pod-change-node",
        "pod-change-resources",
        "pod-change-restart-policy",
        "pod-create-null",
        "pod-create-other-kind",
        "pod-create-other-version",
    ),
    "the answer to a deletion that ends at once lacks the marks of a deletion": (
        "evict-other-kind",
    ),
    "validation of workloads stops at what their controllers need": (
        "change-jobs-template",
        "scale-deployments-text",
        "scale-replicasets-text",
        "scale-statefulsets-text",
    ),
    "odd options and headers of reads are refused with other words, or accepted": (
        "bare-list-as-one",
        "bare-unknown",
        "get-not-acceptable",
        "get-yaml",
        "post-content-type",
    ),
    "not yet matched: discovery errors, bindings, logs, status and replacements of pods": (
        "pod-put-without-version",
    ),
}
