"""Serving of loaded models: admission, queueing, warm-up, answers and reloads."""
