{{/*
The Deployment, service account, disruption budget and additional role of a component. Arguments:
  root: the context of the chart
  name: the name of all of these objects, and the label app
  component: the container's name and the label app.kubernetes.io/component
  values: the component's values
  args: its flags
  webhook: true for the component that serves the webhook
*/}}
{{- define "vpa.component" -}}
{{- $values := .values }}
{{- $pods := deepCopy .root.Values.pods }}
{{- range $key, $value := $values.pods }}
{{- $_ := set $pods $key $value }}
{{- end }}
{{- $labels := merge (dict "app" .name) (include "vpa.componentLabels" .component | fromYaml) $pods.labels }}
{{- $about := dict "root" .root "name" .name "component" .component "app" .name -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "vpa.metadata" (dict
    "root" .root "name" .name "annotations" $values.serviceAccountAnnotations) | nindent 2 }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "vpa.metadata" (merge (dict "annotations" $values.annotations) $about) | nindent 2 }}
spec:
  replicas: {{ $values.replicas }}
  {{- if $pods.hostNetwork }}
  strategy:
    rollingUpdate: # a node's ports are free only after the old pod ends
      maxUnavailable: 1
      maxSurge: 0
  {{- else if .webhook }}
  strategy:
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  {{- end }}
  selector:
    matchLabels:
      app: {{ .name }}
  template:
    metadata:
      labels: {{- toYaml $labels | nindent 8 }}
      {{- with $pods.annotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ .name }}
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $pods.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- if $pods.hostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      {{- with $pods.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $pods.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $pods.affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- else }}
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: topology.kubernetes.io/zone
                labelSelector:
                  matchLabels:
                    app: {{ $.name }}
      {{- end }}
      {{- with $pods.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- range . }}
        - {{- toYaml . | nindent 10 }}
          {{- if not .labelSelector }}
          labelSelector:
            matchLabels:
              app: {{ $.name }}
          {{- end }}
        {{- end }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: {{ .component }}
          image: {{ include "vpa.image" (dict "common" .root.Values.image "own" $values.image "root" .root) }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args:
            {{- include "vpa.args" . | nindent 12 }}
          env:
            - name: NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
            {{- with $pods.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          {{- if .webhook }}
          volumeMounts:
            - name: tls-certs
              mountPath: /etc/tls-certs
          {{- end }}
          resources: {{- toYaml $values.resources | nindent 12 }}
          ports:
            {{- if .webhook }}
            - name: webhook
              containerPort: {{ $values.webhookPort }}
            {{- end }}
            - name: prometheus
              containerPort: {{ $values.opsPort }}
          {{- if .webhook }}
          lifecycle:
            preStop: # API servers learn within seconds that the pod is ending, and call it until then
              sleep:
                seconds: 5
          {{- end }}
          startupProbe:
            httpGet:
              path: /health-check
              port: prometheus
            periodSeconds: 1
            failureThreshold: 60
          livenessProbe:
            httpGet:
              path: /health-check
              port: prometheus
            periodSeconds: 10
            failureThreshold: 3
          readinessProbe:
            httpGet:
              path: /readyz
              port: prometheus
            periodSeconds: 2
            failureThreshold: 3
      {{- if .webhook }}
      volumes:
        - name: tls-certs
          {{- include "vpa.certificateVolume" .root | nindent 10 }}
      {{- end }}
{{- if $values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "vpa.metadata" $about | nindent 2 }}
spec:
  maxUnavailable: {{ $values.podDisruptionBudget.maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      app: {{ .name }}
{{- end }}
{{- with $values.rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  {{- include "vpa.metadata" (dict
    "root" $.root "name" (printf "system:%s-additional" $.name) "cluster" true) | nindent 2 }}
rules: {{- toYaml . | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "vpa.metadata" (dict
    "root" $.root "name" (printf "system:%s-additional" $.name) "cluster" true) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: system:{{ $.name }}-additional
subjects:
  - kind: ServiceAccount
    name: {{ $.name }}
    namespace: {{ $.root.Release.Namespace }}
{{- end }}
{{- end -}}

{{- define "vpa.image" -}}
{{- if .own.digest -}}
{{ .common.registry }}/{{ .own.name }}@{{ .own.digest }}
{{- else -}}
{{ .common.registry }}/{{ .own.name }}:{{ .common.tag | default .root.Chart.AppVersion }}
{{- end }}
{{- end -}}

{{/* The flags of a component: its own, then those of all components, then those that the values add. */}}
{{- define "vpa.args" -}}
{{- $all := .root.Values }}
{{- $args := .args }}
{{- if ne (int .values.opsPort) (int .defaultOpsPort) }}
{{- $args = append $args (printf "--address=:%d" (int .values.opsPort)) }}
{{- end }}
{{- with $all.vpaNamespace }}
{{- $args = append $args (printf "--vpa-object-namespace=%s" .) }}
{{- end }}
{{- with $all.ignoredNamespaces }}
{{- $args = append $args (printf "--ignored-vpa-object-namespaces=%s" (join "," .)) }}
{{- end }}
{{- with $all.featureGates }}
{{- $gates := list }}
{{- range $gate, $on := . }}
{{- $gates = append $gates (printf "%s=%t" $gate $on) }}
{{- end }}
{{- $args = append $args (printf "--feature-gates=%s" (join "," $gates)) }}
{{- end }}
{{- toYaml (concat $args .values.args) }}
{{- end -}}

{{/* The flags of leader election. Argument: the component's values. */}}
{{- define "vpa.leaderElectionArgs" -}}
{{- if .leaderElection }}
- --leader-elect=true
- --leader-elect-resource-namespace=$(NAMESPACE)
{{- end }}
{{- end -}}

{{/* The Lease of leader election. It is here so that it is deleted with the rest. Arguments: root, name, component. */}}
{{- define "vpa.lease" -}}
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata:
  {{- include "vpa.metadata" . | nindent 2 }}
{{- end -}}
