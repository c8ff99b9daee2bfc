"""How good an index is on labelled items, beside baselines and own models."""
