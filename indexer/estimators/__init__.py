"""Indexes built as scikit-learn estimators are fitted."""
