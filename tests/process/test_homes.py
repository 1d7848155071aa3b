"""The tests keep their hands off the servers of whoever runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit import paths


def test_what_a_test_takes_back_gives_it_no_other_home(
    homes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.undo()
    assert paths.state_home().is_relative_to(homes)
