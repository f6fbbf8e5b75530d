{{- define "sparkstate.name" -}}
{{- $chart := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $chart .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name $chart | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "sparkstate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sparkstate.labels" -}}
{{ include "sparkstate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/component: operator
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Of the pods that helm runs: the operator's selector does not mean them. A PodDisruptionBudget would take such a pod
for an operator that runs, and let the last one go. */}}
{{- define "sparkstate.hookLabels" -}}
{{- $own := dict "app.kubernetes.io/name" (printf "%s-hook" .Chart.Name) "app.kubernetes.io/component" "hook" }}
{{- toYaml (mergeOverwrite (include "sparkstate.labels" . | fromYaml) $own) }}
{{- end }}

{{- define "sparkstate.account" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "sparkstate.name" .) .Values.serviceAccount.name }}{{ else }}{{ required "serviceAccount.name is empty; name one, or let serviceAccount.create be true" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{/* The account of the uninstall's Job: one of its own, because the operator's goes with the release, or the one that was
there before. */}}
{{- define "sparkstate.releaseAccount" -}}
{{- if .Values.serviceAccount.create }}{{ printf "%s-release" (include "sparkstate.name" .) }}{{ else }}{{ include "sparkstate.account" . }}{{ end }}
{{- end }}

{{/* Where the pods of the release may run, and how their image is pulled */}}
{{- define "sparkstate.placing" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
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
{{- end }}

{{- define "sparkstate.keySecret" -}}
{{- default (printf "%s-key" (include "sparkstate.name" .)) .Values.operatorKey.existingSecret }}
{{- end }}

{{/* registry/repository:tag or @digest of .image */}}
{{- define "sparkstate.image" -}}
{{- $registry := default .image.registry .root.Values.global.imageRegistry -}}
{{- $place := ternary (printf "%s/%s" $registry .image.repository) .image.repository (ne $registry "") -}}
{{- if .image.digest }}{{ printf "%s@%s" $place .image.digest }}{{ else }}{{ printf "%s:%s" $place (default .root.Chart.AppVersion .image.tag) }}{{ end }}
{{- end }}

{{/* Pod and container settings that Pod Security "restricted" asks for */}}
{{- define "sparkstate.podSecurity" -}}
runAsNonRoot: true
{{- range $field, $value := .Values.podSecurity }}
{{- if kindIs "invalid" $value | not }}
{{ $field }}: {{ $value | int64 }}
{{- end }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "sparkstate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "sparkstate.leaseArgs" -}}
- --lease-namespace={{ .Release.Namespace }}
- --lease-name={{ include "sparkstate.name" . }}
- --lease-seconds={{ .Values.leaderElection.leaseSeconds }}
{{- with .Values.operatorClass }}
- --operator-class={{ . }}
{{- end }}
{{- end }}

{{/* The role of drivers: cluster-wide, or one in each watched namespace. */}}
{{- define "sparkstate.driverRole" -}}
{{- if .Values.watchNamespaces }}{{ printf "%s-driver" (include "sparkstate.name" .) }}{{ else }}{{ printf "%s-%s-driver" .Release.Namespace (include "sparkstate.name" .) }}{{ end }}
{{- end }}

{{/* The operator's right to bind drivers to that role, and to no other */}}
{{- define "sparkstate.bindRule" -}}
{{- range (include "sparkstate.rules" . | fromYaml).bind }}
{{- $_ := set . "resources" (list (ternary "roles" "clusterroles" (gt (len $.Values.watchNamespaces) 0))) }}
{{- $_ := set . "resourceNames" (list (include "sparkstate.driverRole" $)) }}
{{- toYaml (list .) }}
{{- end }}
{{- end }}

{{- define "sparkstate.rules" -}}
{{ .Files.Get "files/rules.yaml" }}
{{- end }}
