"""Features of a project: choosing them, learning them, and computing values."""
