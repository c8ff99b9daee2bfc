"""QWYC: schedules of early exits are fitted to scores of base models."""
