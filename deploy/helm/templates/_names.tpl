{{- define "dueledger.name" -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "dueledger.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "dueledger.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "dueledger.postgresHost" -}}
{{- if .Values.postgres.cluster.create -}}
{{ include "dueledger.name" . }}-postgres-rw
{{- else -}}
{{ required "postgres.host is empty: name the server, or set postgres.cluster.create" .Values.postgres.host }}
{{- end -}}
{{- end -}}

{{/* The address without login; libpq's variables PGUSER and PGPASSWORD have that. */}}
{{- define "dueledger.dsn" -}}
{{- $postgres := .Values.postgres -}}
postgresql://{{ include "dueledger.postgresHost" . }}:{{ $postgres.port }}/{{ $postgres.database }}
{{- with $postgres.parameters }}?{{ . }}{{ end -}}
{{- end -}}

{{- define "dueledger.administratorSecret" -}}
{{- if .Values.postgres.cluster.create -}}
{{ include "dueledger.name" . }}-postgres-superuser
{{- else -}}
{{ required "postgres.administrator.secret is empty: it names the login that migrates" .Values.postgres.administrator.secret }}
{{- end -}}
{{- end -}}

{{- define "dueledger.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "dueledger.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}
