"""Fitted estimators and model files, read into the forms that are served."""
