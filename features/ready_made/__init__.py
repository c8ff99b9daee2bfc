"""Features of images and texts to choose from, of very different cost."""
