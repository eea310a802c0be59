"""Where the bytes and round trips of llama.cpp over RPC go."""

__version__ = "0.1.0"
