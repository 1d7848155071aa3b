"""A terminal cockpit for serving language models with vLLM on one's own GPUs."""

__version__ = "0.1.0"
