{{/* The part of names that stands for this chart. */}}
{{- define "windlass.name" -}}
{{- default "windlass" .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* What all names begin with. Short enough for every suffix. */}}
{{- define "windlass.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "windlass.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "windlass.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "windlass.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "windlass.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The label by which people find the operator of these APIs: dashboards and network policies select it. */}}
{{- define "windlass.labelName" -}}
{{- default "pulumi-kubernetes-operator" .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "windlass.selectorLabels" -}}
app.kubernetes.io/name: {{ include "windlass.labelName" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "windlass.labels" -}}
{{ include "windlass.selectorLabels" . }}
{{ include "windlass.commonLabels" . }}
{{- end -}}

{{- define "windlass.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: windlass
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "windlass.image" -}}
{{- $image := .Values.image -}}
{{- $registry := default $image.registry .Values.global.imageRegistry -}}
{{- $name := $image.repository -}}
{{- if $registry -}}
{{- $name = printf "%s/%s" (trimSuffix "/" $registry) $image.repository -}}
{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* A name, a list of names, or a list of references. */}}
{{- define "windlass.imagePullSecrets" -}}
{{- $secrets := default .Values.global.imagePullSecrets .Values.imagePullSecrets -}}
{{- if kindIs "string" $secrets -}}
{{- $secrets = ternary (list $secrets) (list) (ne $secrets "") -}}
{{- end -}}
{{- with $secrets }}
imagePullSecrets:
{{- range . }}
- name: {{ if kindIs "string" . }}{{ . }}{{ else }}{{ .name }}{{ end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The namespaces to look after, as a JSON list; empty for the whole cluster. */}}
{{- define "windlass.namespaces" -}}
{{- if .Values.watchNamespaces -}}
{{- .Values.watchNamespaces | uniq | toJson -}}
{{- else if and .Values.rbac.create (not .Values.rbac.createClusterRole) -}}
{{- list .Release.Namespace | toJson -}}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{/* The rules of the operator's ClusterRole, or of its Role for "leader", as text. */}}
{{- define "windlass.rules" -}}
{{- $documents := splitList "\n---\n" (.root.Files.Get "files/role.yaml") -}}
{{- $document := index $documents (ternary 1 0 (eq .which "leader")) -}}
{{- splitList "\nrules:\n" $document | last | trimSuffix "\n" -}}
{{- end -}}

{{/* Those of them that are about namespaces with Stacks, or ("cluster") those that are not, as JSON. */}}
{{- define "windlass.rulesOf" -}}
{{- $ofCluster := list "nodes" "customresourcedefinitions" "tokenreviews" "subjectaccessreviews" -}}
{{- $found := list -}}
{{- range fromYamlArray (include "windlass.rules" (dict "root" .root "which" "all")) -}}
{{- $only := false -}}
{{- range .resources -}}{{- if has . $ofCluster -}}{{- $only = true -}}{{- end -}}{{- end -}}
{{/* The API server's own Service is in one namespace, whichever are looked after. */}}
{{- if .resourceNames -}}{{- if has "kubernetes" .resourceNames -}}{{- $only = true -}}{{- end -}}{{- end -}}
{{- if eq $only (eq $.which "cluster") -}}{{- $found = append $found . -}}{{- end -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{- define "windlass.serviceAddress" -}}
{{- default (printf "%s.%s:80" (include "windlass.fullname" .) .Release.Namespace) .Values.controller.advertisedAddress -}}
{{- end -}}

{{- define "windlass.policyText" -}}
{{- toYaml .Values.policy -}}
{{- end -}}

{{/* Peers of a network policy; none is everybody. */}}
{{- define "windlass.from" -}}
{{- with . }}
from:
{{ toYaml . }}
{{- end }}
{{- end -}}
