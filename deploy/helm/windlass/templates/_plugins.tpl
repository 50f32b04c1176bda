{{/* Plugins: each entry of `plugins` is a directory of the operator's container. */}}

{{- define "windlass.checkPlugins" -}}
{{- $seen := list -}}
{{- range $plugin := .Values.plugins -}}
{{- if has $plugin.name $seen -}}
{{- fail (printf "plugins: %q is there twice; each name is a directory of its own" $plugin.name) -}}
{{- end -}}
{{- $seen = append $seen $plugin.name -}}
{{- $sources := list -}}
{{- range list "configMap" "image" "initImage" "claim" -}}
{{- if hasKey $plugin . -}}{{- $sources = append $sources . -}}{{- end -}}
{{- end -}}
{{- if ne (len $sources) 1 -}}
{{- fail (printf "plugins: %q has %d sources; write exactly one of configMap, image, initImage, claim" $plugin.name (len $sources)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "windlass.pluginMounts" -}}
{{- range .Values.plugins }}
- name: plugins-{{ .name }}
  mountPath: /plugins/{{ .name }}
  readOnly: true
  {{- $source := default (default dict .image) .claim }}
  {{- with $source.subPath }}
  subPath: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "windlass.pluginVolumes" -}}
{{- range .Values.plugins }}
- name: plugins-{{ .name }}
  {{- with .configMap }}
  configMap:
    name: {{ . }}
  {{- end }}
  {{- with .image }}
  image:
    reference: {{ .reference | quote }}
    {{- with .pullPolicy }}
    pullPolicy: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .claim }}
  persistentVolumeClaim:
    claimName: {{ .claimName }}
    readOnly: true
  {{- end }}
  {{- if .initImage }}
  emptyDir: {}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "windlass.pluginInitContainers" -}}
{{- range .Values.plugins }}
{{- if .initImage }}
- name: plugins-{{ .name }}
  image: {{ .initImage.reference | quote }}
  imagePullPolicy: {{ default $.Values.image.pullPolicy .initImage.pullPolicy }}
  command:
    {{- toYaml (default (list "sh" "-c" "cp /plugins/*.wasm /target/") .initImage.command) | nindent 4 }}
  resources:
    {{- toYaml $.Values.resources | nindent 4 }}
  securityContext:
    {{- toYaml $.Values.securityContext | nindent 4 }}
  volumeMounts:
  - name: plugins-{{ .name }}
    mountPath: /target
{{- end }}
{{- end }}
{{- end -}}
