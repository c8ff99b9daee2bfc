"""Manifests, and programs that use the clients of KServe."""
