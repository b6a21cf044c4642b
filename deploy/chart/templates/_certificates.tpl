{{- define "vpa.secretName" -}}
{{ .Values.certificates.secretName | default "vpa-tls-certs" }}
{{- end -}}

{{/* The source of the volume with the certificates. */}}
{{- define "vpa.certificateVolume" -}}
{{- $mode := .Values.certificates.mode }}
{{- if eq $mode "managed" -}}
emptyDir:
  medium: Memory
  sizeLimit: 1Mi
{{- else -}}
secret:
  secretName: {{ include "vpa.secretName" . }}
  items: # without the authority's key
    {{- if eq $mode "secret" }}
    - {key: caCert.pem, path: caCert.pem}
    - {key: serverCert.pem, path: serverCert.pem}
    - {key: serverKey.pem, path: serverKey.pem}
    {{- else }}
    - {key: ca.crt, path: caCert.pem}
    - {key: tls.crt, path: serverCert.pem}
    - {key: tls.key, path: serverKey.pem}
    {{- end }}
{{- end }}
{{- end -}}
