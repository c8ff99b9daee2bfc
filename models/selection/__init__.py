"""Learners by name, and races between them: DAUB, Successive Halving, OBMS."""
