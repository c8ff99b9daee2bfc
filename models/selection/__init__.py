"""Choose among learners by a race: learners by name, and strategies of races."""
