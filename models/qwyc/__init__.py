"""QWYC: fit schedules of early exits to the scores of an ensemble."""
