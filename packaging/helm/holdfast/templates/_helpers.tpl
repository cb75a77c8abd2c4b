{{- define "holdfast.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "holdfast.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "holdfast.nodes" -}}
{{ include "holdfast.name" . }}-nodes
{{- end -}}

{{- define "holdfast.secret" -}}
{{ .Values.auth.existingSecret | default (include "holdfast.name" .) }}
{{- end -}}

{{- /* The domain of the nodes' names. */ -}}
{{- define "holdfast.domain" -}}
{{ include "holdfast.nodes" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end -}}

{{- /* All nodes by name. */ -}}
{{- define "holdfast.seeds" -}}
{{- $seeds := list -}}
{{- range $i := until (int .Values.replicas) -}}
{{- $seeds = append $seeds (printf "%s-%d.%s:6379" (include "holdfast.name" $) $i (include "holdfast.domain" $)) -}}
{{- end -}}
{{- join "," $seeds -}}
{{- end -}}
