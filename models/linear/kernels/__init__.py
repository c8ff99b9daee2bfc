"""Compiled sums over a row's inputs."""
