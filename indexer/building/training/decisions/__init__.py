"""How class scores become answers: calibration and thresholds."""
