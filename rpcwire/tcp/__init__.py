"""Segments to streams: offsets, holes, round-trip estimates."""
