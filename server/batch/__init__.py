"""Answer many items within one budget of time or money."""
