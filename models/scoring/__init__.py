"""The parts of every compiled model: preparation, raw scores, link, choice."""
