"""Features of images and texts that projects can choose from, of very different cost."""
