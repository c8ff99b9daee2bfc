"""Compiled: QWYC's Algorithm 1, impurity, optimal stopping, following a schedule."""
