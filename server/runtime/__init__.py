"""Serving of models: decoding, queueing, admission, reloading and warm-up."""
