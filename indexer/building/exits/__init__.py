"""Early exits: answers before all features or all base models are computed."""
