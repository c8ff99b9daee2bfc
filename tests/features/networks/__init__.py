"""Networks as features: cut, stored, run, and compared with the whole network."""
