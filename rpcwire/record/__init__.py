"""Recording: capturers, the relay, the slimming writer, the probe of a worker."""
