"""OpenTelemetry: trace ids of jobs, and the export of spans and metrics by OTLP. Off unless an endpoint is set."""
