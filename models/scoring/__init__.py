"""What all compiled models share: row preparation, raw scores, choice of a class."""
