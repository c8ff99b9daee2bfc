"""Learners by name, and strategies that race them: DAUB, Successive Halving, OBMS."""
