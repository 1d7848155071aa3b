"""WHAT exists: GPUs, host and the installed vLLMs."""
