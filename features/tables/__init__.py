"""Tables: kinds of columns, columns as features, and rows as records."""
