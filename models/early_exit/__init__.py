"""An ensemble as a sum of base models, and evaluators that stop where a schedule says so."""
