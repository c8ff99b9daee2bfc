{{- define "polydom.name" -}}
{{- $name := ternary .Release.Name (printf "%s-polydom" .Release.Name) (contains "polydom" .Release.Name) -}}
{{- $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "polydom.selector" -}}
app.kubernetes.io/name: polydom
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "polydom.labels" -}}
{{ include "polydom.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "polydom.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "polydom.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "polydom.name" .) "default" .Values.serviceAccount.create) }}
{{- end -}}

{{- define "polydom.unprivileged" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "polydom.probe" -}}
port: http
{{- if .Values.tls.secret }}
scheme: HTTPS
{{- end }}
{{- end -}}

{{/* Labels of this release's series in Prometheus, as the operator gives them. */}}
{{- define "polydom.series" -}}
{{ .Values.autoscaling.selector | default (printf "namespace=%q,service=%q" .Release.Namespace (include "polydom.name" .)) }}
{{- end -}}

{{/* Refuse what a schema cannot. */}}
{{- define "polydom.check" -}}
{{- with .Values.index -}}
{{- if gt (len (compact (list .claim .hostPath .uri))) 1 -}}
{{- fail "index: give one of claim, hostPath and uri" -}}
{{- end -}}
{{- if and .uri (not .sha256) -}}
{{- fail "index.sha256 is needed with index.uri: what `sha256sum` says of the file" -}}
{{- end -}}
{{- if and .uri (ne (base .uri) .file) (not (regexMatch "^https?://" .uri)) -}}
{{- fail (printf "index.file: %q is what index.uri leads to" (base .uri)) -}}
{{- end -}}
{{- if and .watch (not (or .claim .hostPath)) -}}
{{- fail "index.watch: only a file in index.claim or index.hostPath can be replaced" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled .Values.tokens.secret (not .Values.serviceMonitor.token.secret) -}}
{{- fail "serviceMonitor.token.secret is needed where tokens.secret is given: /metrics asks for a token" -}}
{{- end -}}
{{- end -}}
