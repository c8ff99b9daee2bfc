"""HTTP/1.1 connections: flow control, limits, request bodies, replies and tokens."""
