"""The shell: one module a verb, every verb with --json."""
