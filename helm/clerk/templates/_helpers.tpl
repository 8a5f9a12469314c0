{{/* The prefix of all names. Short: pods append up to 17 characters to the name of their Deployment. */}}
{{- define "clerk.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) -}}
{{- $name | trunc 30 | trimSuffix "-" -}}
{{- end }}

{{- define "clerk.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "clerk.labels" -}}
{{ include "clerk.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "clerk.image" -}}
{{- $image := .Values.image -}}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) -}}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end }}

{{/* The groups of workers that are enabled, as YAML: each group merged over workerDefaults. */}}
{{- define "clerk.workers" -}}
{{- $defaults := .Values.workerDefaults -}}
{{- $workers := dict -}}
{{- range $name, $given := .Values.workers -}}
{{- if $given -}}
{{- $worker := mergeOverwrite (deepCopy $defaults) $given -}}
{{- if $worker.enabled }}{{ $_ := set $workers $name $worker }}{{ end -}}
{{- end -}}
{{- end -}}
{{ toYaml $workers }}
{{- end }}

{{/*
A pod. root; component; command: list; secrets: names of Secrets with settings; storage: "none", "read" or "write";
resources; optional: token (whether the dashboard's token is mounted too), settings, port, internet, graceSeconds,
probes: YAML, nodeSelector, tolerations, restartPolicy.
*/}}
{{- define "clerk.pod" -}}
{{- $values := .root.Values -}}
{{- $storage := $values.storage -}}
metadata:
  labels:
    {{- include "clerk.labels" . | nindent 4 }}
    {{- if .internet }}
    clerk/internet: "true"
    {{- end }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with $values.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  {{- with $values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .restartPolicy }}
  restartPolicy: {{ . }}
  {{- end }}
  # The pause container then is process 1 and reaps the child processes of OCR.
  shareProcessNamespace: true
  terminationGracePeriodSeconds: {{ .terminationSeconds | default 30 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  {{- with .nodeSelector | default $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .tolerations | default $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if ne .component "migrate" }}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "clerk.selector" $ | nindent 10 }}
    {{- end }}
  {{- end }}
  containers:
    - name: clerk
      image: {{ include "clerk.image" .root | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      command: {{ toJson .command }}
      env:
        - name: CREDENTIALS_DIRECTORY
          value: /run/secrets/clerk
        - name: CLERK_HOME
          value: /var/lib/clerk
        - name: STORAGE_DIR
          value: {{ $storage.url | default "/var/lib/clerk/storage" | quote }}
        {{- range $name, $value := mergeOverwrite (deepCopy $values.settings) (.settings | default dict) }}
        - name: {{ $name }}
          value: {{ $value | quote }}
        {{- end }}
      {{- if and $storage.url $storage.credentialsSecret (ne .storage "none") }}
      envFrom:
        - secretRef:
            name: {{ $storage.credentialsSecret }}
      {{- end }}
      {{- with .port }}
      ports:
        - name: http
          containerPort: {{ . }}
      {{- end }}
      {{- with .probes }}
      {{- . | nindent 6 }}
      {{- end }}
      resources:
        {{- toYaml .resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - name: secrets
          mountPath: /run/secrets/clerk
          readOnly: true
        - name: tmp
          mountPath: /tmp
        - name: home
          mountPath: /var/lib/clerk
        {{- if and (not $storage.url) (ne .storage "none") }}
        - name: storage
          mountPath: /var/lib/clerk/storage
          {{- if eq .storage "read" }}
          readOnly: true
          {{- end }}
        {{- end }}
  volumes:
    - name: secrets
      projected:
        defaultMode: 0440
        sources:
          {{- range .secrets }}
          - secret:
              name: {{ . }}
          {{- end }}
          {{- if .token }}
          - secret:
              name: {{ $values.secrets.dashboard }}
              items:
                - key: CLERK_DASHBOARD_TOKEN
                  path: CLERK_DASHBOARD_TOKEN
          {{- end }}
    - name: tmp
      emptyDir:
        sizeLimit: {{ $values.scratch.tmp }}
    - name: home
      emptyDir:
        sizeLimit: {{ $values.scratch.home }}
    {{- if and (not $storage.url) (ne .storage "none") }}
    - name: storage
      persistentVolumeClaim:
        claimName: {{ $storage.existingClaim | default (printf "%s-storage" (include "clerk.fullname" .root)) }}
    {{- end }}
{{- end }}

{{/* A Deployment's probes by HTTP: live, ready: paths. */}}
{{- define "clerk.httpProbes" -}}
startupProbe:
  httpGet: { path: {{ .live }}, port: http }
  periodSeconds: 5
  failureThreshold: 24
livenessProbe:
  httpGet: { path: {{ .live }}, port: http }
  periodSeconds: 30
  timeoutSeconds: 15
readinessProbe:
  httpGet: { path: {{ .ready }}, port: http }
  periodSeconds: 15
  timeoutSeconds: 15
{{- end }}

{{- define "clerk.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  labels:
    {{- include "clerk.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "clerk.selector" . | nindent 6 }}
{{- end }}

{{/* Service and Ingress of a Deployment: root, name, component, options: dashboard or serve of the values. */}}
{{- define "clerk.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  labels:
    {{- include "clerk.labels" . | nindent 4 }}
  {{- with .options.service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ .options.service.type }}
  ports:
    - name: http
      port: {{ .options.service.port }}
      targetPort: http
  selector:
    {{- include "clerk.selector" . | nindent 4 }}
{{- with .options.ingress }}
{{- if .enabled }}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ $.name }}
  labels:
    {{- include "clerk.labels" $ | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with .className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with .tlsSecret }}
  tls:
    - hosts: [{{ $.options.ingress.host | quote }}]
      secretName: {{ . }}
  {{- end }}
  rules:
    - host: {{ .host | quote }}
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service:
                name: {{ $.name }}
                port:
                  name: http
{{- end }}
{{- end }}
{{- end }}
