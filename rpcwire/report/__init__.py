"""Pages: a run, or two, as one HTML file to look at."""
