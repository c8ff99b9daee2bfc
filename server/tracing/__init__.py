"""Spans of requests for OpenTelemetry, made by its SDK."""
