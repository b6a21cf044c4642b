{{/* True if the values name a selector: no flag of admission sets one. */}}
{{- define "vpa.registeredByHelm" -}}
{{- if or .Values.webhook.namespaceSelector .Values.webhook.objectSelector }}true{{ end }}
{{- end -}}

{{/* A label selector with more expressions. Arguments: given, added. */}}
{{- define "vpa.selector" -}}
{{- $selector := deepCopy .given }}
{{- with concat (.given.matchExpressions | default list) .added }}
{{- $_ := set $selector "matchExpressions" . }}
{{- end }}
{{- toYaml $selector }}
{{- end -}}
