"""Estimators for scikit-learn: `fit` builds an index, `predict` keeps to a budget."""
