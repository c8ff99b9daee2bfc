"""Kernels of Algorithm 1, impurity and optimal stopping, and to follow schedules."""
