"""Models: GGUF headers, config.json, placement of layers."""
