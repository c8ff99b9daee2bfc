"""Estimators of scikit-learn that build an index when they are fitted."""
