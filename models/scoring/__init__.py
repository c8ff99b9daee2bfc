"""The steps that all compiled models share: preparation, raw scores, link, choice."""
