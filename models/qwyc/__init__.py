"""QWYC: fit schedules of early exits to the scores of base models."""
