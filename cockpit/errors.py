"""The one kind of error that a user sees: what is wrong, why, and what to do."""

from __future__ import annotations


class CockpitError(Exception):
    """A failure that ends as one sentence with a fix, on stderr or on the screen.

    ``title`` says what is wrong in one clause, ``detail`` adds facts (may be several lines), ``fix`` says what
    to do. ``exit_code`` is 2 for wrong usage or a refused plan and 1 for a thing that was tried and failed.
    """

    exit_code = 2

    def __init__(self, title: str, detail: str = "", fix: str = "") -> None:
        super().__init__(title)
        self.title = title
        self.detail = detail
        self.fix = fix

    def sentence(self) -> str:
        """Title, detail and fix as one line of plain text."""
        parts = [self.title.rstrip(".")]
        if self.detail:
            parts.append(self.detail.strip().rstrip("."))
        text = ": ".join(parts) + "."
        return f"{text} {self.fix}" if self.fix else text

    def __str__(self) -> str:
        return self.sentence()

    def as_json(self) -> dict[str, str]:
        """The ``error`` object of design json.md."""
        return {"title": self.title, "detail": self.detail, "fix": self.fix}


class FailedError(CockpitError):
    """Something that was rightly asked for was tried and failed (exit code 1)."""

    exit_code = 1
