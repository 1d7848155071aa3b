"""A server that an overlay refused is diagnosed by its own line, whatever is logged after it."""

from __future__ import annotations

import pytest

from cockpit.supervisor.diagnose.files import diagnose_lines
from cockpit.supervisor.diagnose.types import End

LOADING = "(EngineCore pid=1) INFO 11-30 01:00:00 [gpu_model_runner.py:1] Starting to load model m..."
WRAPPER = "(APIServer pid=2) RuntimeError: Engine core initialization failed. See root cause above."


@pytest.mark.parametrize(
    ("overlay", "why", "toggles"),
    [
        (
            "autoround-int8",
            "a layer has asymmetric weights: int8 activations need symmetric ones",
            [{"int8": "off"}, {}],
        ),
        ("quantized-embedding", "it was never tried on vLLM 0.34.0, only on 0.26.0, 0.33.0", [{}]),
    ],
)
def test_the_refusal_is_the_cause(overlay: str, why: str, toggles: list[dict[str, str]]) -> None:
    line = f"(EngineCore pid=1) cockpit overlay {overlay}: refused: {why}"
    found = diagnose_lines([LOADING, line, WRAPPER], End(dead=True, exit_code=1))
    assert found.symptom == "overlay-refused"
    assert found.explanation == f"The overlay {overlay} refused this server: {why}."
    assert [fix.set for fix in found.fixes] == toggles
