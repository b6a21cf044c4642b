{{/*
The metadata of an object. Arguments: root, name, and optionally
  component: sets the labels app.kubernetes.io/name and app.kubernetes.io/component
  app: the label app
  cluster: true for an object without a namespace
  namespace: the namespace, by default that of the release
  labels, annotations: more of them
*/}}
{{- define "vpa.metadata" -}}
{{- $own := dict
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version)
  "app.kubernetes.io/managed-by" .root.Release.Service
  "app.kubernetes.io/instance" .root.Release.Name
  "app.kubernetes.io/version" .root.Chart.AppVersion }}
{{- with .component }}
{{- $own = merge (include "vpa.componentLabels" . | fromYaml) $own }}
{{- end }}
{{- with .app }}
{{- $_ := set $own "app" . }}
{{- end -}}
name: {{ .name }}
{{- if not .cluster }}
namespace: {{ .namespace | default .root.Release.Namespace }}
{{- end }}
labels: {{- merge $own (.labels | default dict) .root.Values.labels | toYaml | nindent 2 }}
{{- with merge dict (.annotations | default dict) .root.Values.annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "vpa.componentLabels" -}}
app.kubernetes.io/name: vertical-pod-autoscaler
app.kubernetes.io/component: {{ . }}
{{- end -}}

{{/*
The objects of a file of deploy/, with the release's namespace in place of kube-system, its labels and
annotations.
Arguments: root, file.
*/}}
{{- define "vpa.objectsOfFile" -}}
{{- $root := .root }}
{{- range splitList "\n---\n" ($root.Files.Get .file) }}
{{- $object := fromYaml . }}
{{- $cluster := not (hasKey $object.metadata "namespace") }}
{{- $namespace := $object.metadata.namespace | default "" }}
{{- $metadata := include "vpa.metadata" (dict
  "root" $root "name" $object.metadata.name "cluster" $cluster
  "namespace" (eq $namespace "kube-system" | ternary "" $namespace)
  "labels" ($object.metadata.labels | default dict)
  "annotations" ($object.metadata.annotations | default dict)) }}
{{- $_ := set $object "metadata" (fromYaml $metadata) }}
{{- range $object.subjects }}
{{- $_ := set . "namespace" $root.Release.Namespace }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end -}}
