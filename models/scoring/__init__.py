"""What every compiled model is: inputs prepared, raw scores, a link, a choice."""
