"""Packets: files, link layers, and the segments in them."""
