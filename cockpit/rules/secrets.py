"""Findings about secrets that lie where others can read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cockpit.rules.finding import Finding


def secret_findings(readable: Sequence[str], file: str) -> Iterator[Finding]:
    """One finding for variables of a slug that hold secrets, when its file can be read by other users."""
    if readable:
        yield Finding(
            rule="secret-in-slug",
            severity="warn",
            subject="environment",
            message=f"other users may read {', '.join(readable)} in {file}",
            fix=f"Export what they hold instead, or run `chmod 600 {file}`.",
        )
