"""Overlays of the cockpit that refuse: they end the server with one line rather than patch what they do not know."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom


def _fixes(seen: Evidence) -> list[Fix]:
    if seen.groups.get("overlay") == "autoround-int8":
        off = Fix(text="Serve it with 16-bit activations.", set={"int8": "off"})
        return [
            off,
            Fix(text="Or use a vLLM that the overlay was tried on: `cockpit engines --json` says which fit."),
        ]
    return [Fix(text="Use a vLLM that the overlay was tried on: `cockpit engines --json` says which fit.")]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="overlay-refused",
        patterns=(r"cockpit overlay (?P<overlay>[\w-]{1,40}): refused: (?P<why>.{1,300})",),
        versions="any",
        explain=lambda seen: (
            f"The overlay {seen.groups.get('overlay', '')} refused this server: {seen.groups.get('why', '').strip()}."
        ),
        fixes=_fixes,
    ),
)
