"""Fitting schedules: order, thresholds, calibration. Scores in, a schedule out."""
