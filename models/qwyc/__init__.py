"""Fitting schedules: order, thresholds, confidence. Scores in, a schedule out."""
