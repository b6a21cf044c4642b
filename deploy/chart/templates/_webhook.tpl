{{/* True if the values name a selector: no flag of admission sets one. */}}
{{- define "vpa.registeredByHelm" -}}
{{- if or .Values.webhook.namespaceSelector .Values.webhook.objectSelector }}true{{ end }}
{{- end -}}

{{/* A label selector with more expressions. Arguments: given, added. */}}
{{- define "vpa.selector" -}}
{{- $expressions := concat (.given.matchExpressions | default list) .added }}
{{- merge (dict "matchExpressions" $expressions) .given | toYaml }}
{{- end -}}
