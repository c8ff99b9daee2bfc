"""What all compiled models share: preparing rows, raw scores, choosing a class."""
