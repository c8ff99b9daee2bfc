"""Linear models, and naive Bayes."""
