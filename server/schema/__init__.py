"""Structures of requests and responses, and functions that split and check bodies."""
