"""The errors rpcwire raises; a caller can catch `RpcwireError` and be done."""


class RpcwireError(Exception):
    """Base of every error that rpcwire raises on purpose; its text is one line for a user."""


class CaptureError(RpcwireError):
    """The input is not a capture at all, or cannot be opened."""


class ModelError(RpcwireError):
    """The model file or its metadata cannot be read."""


class UsageError(RpcwireError):
    """The request itself makes no sense (a flag, a name, a range)."""
