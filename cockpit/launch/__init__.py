"""WHAT exactly runs: a slug and toggle values become argv and environment."""
