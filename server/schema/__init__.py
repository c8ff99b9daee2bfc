"""Structures of requests and responses, and code that splits and checks their bytes."""
