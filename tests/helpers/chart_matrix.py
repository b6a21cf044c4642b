"""Values of the Helm chart that together use every option."""

from typing import Any

Values = dict[str, Any]

FAIL: Values = {"webhook": {"failurePolicy": "Fail", "timeoutSeconds": 7}}
SELECTORS: Values = {
    "webhook": {
        "namespaceSelector": {"matchLabels": {"vpa": "enabled"}},
        "objectSelector": {"matchExpressions": [{"key": "vpa", "operator": "Exists"}]},
    }
}
ISSUER: Values = {
    "certificates": {
        "mode": "cert-manager",
        "secretName": "webhook",
        "issuerRef": {"kind": "ClusterIssuer", "name": "internal"},
    }
}
HOST_NETWORK: Values = {
    "admission": {"webhookPort": 9443, "opsPort": 9444, "pods": {"hostNetwork": True}}
}
MONITORING: Values = {
    "monitoring": {name: {"enabled": True} for name in ("serviceMonitor", "alerts", "dashboard")}
}
EVERYTHING: Values = {
    **ISSUER,
    **MONITORING,
    "labels": {"team": "platform"},
    "annotations": {"owner": "platform"},
    "crds": {"keep": False},
    "featureGates": {"InPlace": True, "CPUStartupBoost": False},
    "ignoredNamespaces": ["kube-public", "kube-node-lease"],
    "image": {"registry": "localhost:5000", "tag": "9", "pullSecrets": [{"name": "registry"}]},
    "pods": {
        "labels": {"cost": "shared"},
        "annotations": {"note": "shared"},
        "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "nodeSelector": {"role": "infra"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "hostNetwork": True,
    },
    "recommender": {
        "replicas": 1,
        "leaderElection": False,
        "opsPort": 9942,
        "args": ["--memory-saver=true"],
        "rules": [{"apiGroups": ["example.com"], "resources": ["apps"], "verbs": ["get"]}],
        "image": {"digest": f"sha256:{'0' * 64}"},
        "annotations": {"note": "recommender"},
        "serviceAccountAnnotations": {"role": "recommender"},
        "pods": {"hostNetwork": False, "priorityClassName": "", "tolerations": []},
    },
    "updater": {"replicas": 0, "podDisruptionBudget": {"enabled": False}},
    "admission": {"webhookPort": 9443, "opsPort": 9444},
    "webhook": {**FAIL["webhook"], **SELECTORS["webhook"], "labels": {"tier": "control"}},
    "externalMetrics": {"enabled": True, "cpuMetric": "cpu", "memoryMetric": "memory"},
    "namespaceVpas": {"enabled": True},
    "dryRunPreflight": {"enabled": True},
    "networkPolicy": {"enabled": True, "apiServers": ["10.0.0.1/32"]},
}
MATRIX: dict[str, Values] = {
    "defaults": {},
    "fail": FAIL,
    "selectors": SELECTORS,
    "secret": {"certificates": {"mode": "secret"}},
    "cert-manager": {"certificates": {"mode": "cert-manager"}},
    "issuer": ISSUER,
    "host network": HOST_NETWORK,
    "monitoring": MONITORING,
    "everything": EVERYTHING,
}
