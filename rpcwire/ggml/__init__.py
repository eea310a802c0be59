"""The ggml RPC protocol: version tables, framing, tensor and graph records."""
