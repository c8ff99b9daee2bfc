"""Search, training, evaluation and final training of feature sets."""
