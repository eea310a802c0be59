"""Links: their catalogue, and time on a link."""
