"""Read fitted estimators and model files into compiled models."""
