"""The documentation as its readers use it."""
