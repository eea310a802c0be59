"""From metadata, or from a recorded run, to a run that has not happened yet."""
