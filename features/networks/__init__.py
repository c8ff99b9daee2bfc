"""Neural networks as features: ONNX files, cut into steps that a budget can buy.

A network is cut where all its work passes through one tensor. Each piece is a step, and
the mean of its output is a feature. So a set of features may hold the first pieces
only, and a request goes on to the next piece while its time lasts.
"""
