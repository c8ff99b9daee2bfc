"""Fitted estimators and model files, read into compiled models."""
