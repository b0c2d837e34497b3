{{- define "eunoe.fullname" -}}
{{- if contains "eunoe" .Release.Name }}{{ .Release.Name | trunc 30 | trimSuffix "-" }}{{ else }}{{ printf "%s-eunoe" .Release.Name | trunc 30 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "eunoe.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "eunoe.selector" -}}
app.kubernetes.io/name: eunoe
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "eunoe.labels" -}}
{{ include "eunoe.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: eunoe
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The list of stages, which `make contracts` writes. */}}
{{- define "eunoe.stages" -}}
{{ .Files.Get "files/stages.yaml" }}
{{- end }}

{{/* The settings of every process. A ConfigMap would come too late for the hook that creates the topics. */}}
{{- define "eunoe.env" -}}
- {name: EUNOE_KAFKA, value: {{ .Values.kafka.bootstrap | quote }}}
- {name: EUNOE_QDRANT_URL, value: {{ .Values.qdrant.url | quote }}}
- {name: EUNOE_PREFIX, value: {{ .Values.prefix | quote }}}
- {name: EUNOE_PARTITIONS, value: {{ .Values.partitions | quote }}}
- {name: EUNOE_REPLICATION, value: {{ .Values.replication | quote }}}
- {name: EUNOE_SHUTDOWN_SECONDS, value: {{ .Values.shutdownSeconds | quote }}}
{{- range $name, $value := .Values.settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
- {name: HOME, value: /tmp}
{{- end }}

{{/* What names a generation, and the log that it reads. */}}
{{- define "eunoe.generation" -}}
- {name: EUNOE_GENERATION, value: {{ .name | quote }}}
{{- with .log }}
- {name: EUNOE_LOG, value: {{ . | quote }}}
{{- end }}
{{- end }}

{{- define "eunoe.envFrom" -}}
- secretRef: {name: {{ .Values.existingSecret | quote }}}
{{- end }}

{{/* What every pod has, beside its containers. */}}
{{- define "eunoe.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- define "eunoe.volumes" -}}
- name: tmp
  emptyDir: {}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "eunoe.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "eunoe.container" -}}
image: {{ include "eunoe.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* A worker that waits for a server is alive and not ready: a restart would not help. */}}
{{- define "eunoe.probes" -}}
startupProbe:
  httpGet: {path: /live, port: health}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /live, port: health}
  periodSeconds: 15
  timeoutSeconds: 10
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /ready, port: health}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}

{{- define "eunoe.podMetadata" -}}
labels:
  {{- include "eunoe.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
  {{- with .generation }}
  eunoe/generation: {{ . }}
  {{- end }}
  {{- with .root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .root.Values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The topic that a stage consumes, as the broker knows it: streams/topics.py. */}}
{{- define "eunoe.topic" -}}
{{- if .stage.derived }}{{ .root.Values.prefix }}.{{ .generation.name }}.{{ .stage.topic }}{{ else }}{{ .root.Values.prefix }}.{{ .stage.topic }}{{ with .generation.log }}.{{ . }}{{ end }}{{ end }}
{{- end }}

{{- define "eunoe.keysSecret" -}}
{{ .Values.gateway.keysSecret | default (printf "%s-keys" (include "eunoe.fullname" .)) }}
{{- end }}
