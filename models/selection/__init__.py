"""Choose among learners by a race: learners by name, strategies, and the log."""
