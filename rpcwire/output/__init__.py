"""Text, JSON and its schema, CSV."""
