"""Ready-made features of images and texts, cheap and expensive ones."""
