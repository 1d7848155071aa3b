"""WHAT happens: one frozen frame a tick."""
