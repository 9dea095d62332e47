{{/* A file of the chart; .root is the context of the chart, .file the path. */}}
{{- define "skydock.file" -}}
{{- required (printf "%s is missing in the chart: use a checkout or a package that has what symbolic links point to" .file) (.root.Files.Get .file) -}}
{{- end -}}

{{/* What Kustomize knows about the base. */}}
{{- define "skydock.kustomization" -}}
{{- include "skydock.file" (dict "root" . "file" "base/kustomization.yaml") -}}
{{- end -}}

{{/* The labels that Kustomize adds to objects and Pods. */}}
{{- define "skydock.labels" -}}
{{- $kustomization := include "skydock.kustomization" . | fromYaml -}}
{{- toYaml (first $kustomization.labels).pairs -}}
{{- end -}}

{{/* An object as a document, with labels and namespace; .root is the context of the chart, .object the object. */}}
{{- define "skydock.object" -}}
{{- $metadata := .object.metadata -}}
{{- $labels := include "skydock.labels" .root | fromYaml -}}
{{- $_ := set $metadata "labels" (merge (dict) ($metadata.labels | default dict) $labels) -}}
{{- if not (hasPrefix "Cluster" .object.kind) -}}
{{- $_ := set $metadata "namespace" .root.Release.Namespace -}}
{{- end }}
---
{{ toYaml .object }}
{{- end -}}

{{/* Files of the Secret as JSON; empty if there is none. */}}
{{- define "skydock.secretFiles" -}}
{{- if .Values.cloudConfig -}}
{{- toJson .Values.cloudConfig -}}
{{- else if not (or .Values.configuration .Values.sources) -}}
{{- toJson (dict "cloud.yaml" (include "skydock.file" (dict "root" . "file" "base/cloud.yaml"))) -}}
{{- end -}}
{{- end -}}

{{/* Fails if values contradict each other. */}}
{{- define "skydock.check" -}}
{{- $namespace := (include "skydock.kustomization" . | fromYaml).namespace -}}
{{- if ne .Release.Namespace $namespace -}}
{{- fail (printf "the namespace is %s; expected %s, where the Lease is: add --namespace %s" .Release.Namespace $namespace $namespace) -}}
{{- end -}}
{{- if and .Values.plugin.image .Values.plugin.initContainer -}}
{{- fail "plugin.image and plugin.initContainer are mutually exclusive" -}}
{{- end -}}
{{- if hasKey .Values.cloudConfig "existingSecret" -}}
{{- fail "cloudConfig has files, each with its contents: your own Secret goes to sources, as [{secret: {name: NAME}}]" -}}
{{- end -}}
{{- if and .Values.sources (not (or .Values.configuration .Values.flags.config (index .Values.flags "cloud-config"))) -}}
{{- fail "sources without a file that uses them: add --set-file 'configuration.config\\.yaml=config.yaml', or set flags.cloud-config" -}}
{{- end -}}
{{- if and .Values.rbac.create (or (hasKey .Values.flags "leader-elect-resource-name") (hasKey .Values.flags "leader-elect-resource-namespace")) -}}
{{- fail "the roles are for the default Lease: with another one, set rbac.create=false and create them yourself" -}}
{{- end -}}
{{- if and .Values.csi.snapshots (not (or .Values.csi.enabled .Values.csi.controllers)) -}}
{{- fail "csi.snapshots needs csi.enabled or csi.controllers" -}}
{{- end -}}
{{- if and .Values.csi.enabled .Values.csi.controllers -}}
{{- fail "csi.enabled and csi.controllers exclude each other: sidecars and controllers would do the same" -}}
{{- end -}}
{{- if and .Values.csi.enabled (eq .Values.kind "StaticPod") -}}
{{- fail "csi.enabled needs kind Deployment or DaemonSet: a static Pod has no service account for the sidecars" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.secureServing) -}}
{{- fail "serviceMonitor needs secureServing: without it, nobody may read metrics" -}}
{{- end -}}
{{- if and .Values.alerts.enabled (not (or .Values.secureServing (hasKey .Values.flags "metrics-bind-address"))) -}}
{{- fail "alerts need secureServing: without it, nobody may read metrics" -}}
{{- end -}}
{{- if and .Values.configuration (not (hasKey .Values.configuration "config.yaml")) -}}
{{- fail "configuration: config.yaml is missing; without a configuration file, use cloudConfig for other files" -}}
{{- end -}}
{{- if has .Values.kind (list "Deployment" "DaemonSet") -}}
{{- range $value := list "configuration" "cloudConfig" -}}
{{- range $name, $text := index $.Values $value -}}
{{- if not $text -}}
{{- fail (printf "%s: %s is empty: add --set-file '%s.%s=FILE', also to each helm upgrade" $value $name $value (replace "." "\\." $name)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
