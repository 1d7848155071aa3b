"""A world of one's own for every test of the screen, and snapshots that a person can read."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from cockpit.config import Config
from cockpit.rig.types import Engine, EngineProblem, OverlayState, Rig
from cockpit.rules.overlays import AUTOROUND_INT8, QUANTIZED_EMBEDDING
from cockpit.session import Session
from cockpit.supervisor import process, store

from .world import CPU_DISTRIBUTIONS, CPU_RIG, CUDA_DISTRIBUTIONS, HOST, fake_engine

MakeSession = Callable[..., Session]
_PROBED: dict[str, bytes] = {}
"""What the real probe has said of the fake engines in the first test's folder."""


class ScreenText(SingleFileSnapshotExtension):
    """One text file a screen, exactly as it is drawn."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"

    def serialize(self, data: Any, **_: Any) -> str:
        """Lines without trailing blanks, and one line end at the end."""
        return "\n".join(line.rstrip() for line in str(data).splitlines()).rstrip() + "\n"


@pytest.fixture
def screen_text(snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> SnapshotAssertion:
    """``assert shown(pilot) == screen_text(name="catalog-80x24")``, at one moment: no age on it grows meanwhile."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    return snapshot.use_extension(ScreenText)


@pytest.fixture(autouse=True)
def homes(tmp_path: Path) -> Iterator[Path]:
    """XDG homes of this test alone, no vllm in PATH, and no server left: no ``monkeypatch.undo()`` changes that."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
            patch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
        patch.setenv("PATH", str(tmp_path / "empty"))
        # Far from 8000: a real vLLM may be loading there, which binds its port long before it listens. Apart from
        # those of other workers, whose servers may just be about to bind theirs.
        patch.setattr("cockpit.this_host.FIRST_PORT", 20_000 + os.getpid() % 600 * 16)
        # The host is as fixed as the rig: a machine without a compiler or with models in its cache tests the same.
        patch.setattr("cockpit.this_host.read_facts", lambda _: HOST)
        patch.setattr("cockpit.supervisor.others.find_foreign", lambda _: ())
        patch.setattr("cockpit.supervisor.others.find_settled_leftovers", tuple)
        patch.setattr("cockpit.supervisor.holders.gpu_holders", dict)
        patch.setenv("HF_HOME", str(tmp_path / "hub"))
        for name in ("HF_HUB_CACHE", "NO_COLOR", "VLLM_API_KEY", "VLLM_MARLIN_INPUT_DTYPE", "EDITOR", "VISUAL"):
            patch.delenv(name, raising=False)
        yield tmp_path
        for record in store.load_all()[0]:
            for who in process.members_of(record):
                process.send_signal(who, signal.SIGKILL)


def _found(session: Session, folder: str) -> tuple[list[Engine], list[EngineProblem]]:
    """The engines below ``folder``, which are those of every test: probed once, else two Pythons start a test."""
    if not _PROBED:
        found, problems = session._found_engines
        assert not problems
        _PROBED[folder] = msgspec.json.encode(found)
    ((probed, engines),) = _PROBED.items()
    return msgspec.json.decode(engines.replace(probed.encode(), folder.encode()), type=list[Engine]), []


@pytest.fixture
def make_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeSession:
    """A real session whose engines are fake vLLMs and whose rig is fixed: ``make_session(rig=rig_of(2))``."""

    def make(rig: Rig = CPU_RIG, **settings: Any) -> Session:
        engines = []
        for name, distributions in (("cpu", CPU_DISTRIBUTIONS), ("cuda", CUDA_DISTRIBUTIONS)):
            root = tmp_path / "engines" / name
            engines.append(str(root if root.exists() else fake_engine(root, distributions)))
        session = Session(Config(engines=engines, refresh_seconds=0.2, **settings))
        session.__dict__["_found_engines"] = _found(session, str(tmp_path))
        monkeypatch.setattr("cockpit.session.read_rig", lambda: rig)
        # A vLLM without sources fits no overlay; this one is to be like a real 0.33, which both fit.
        found, problems = session._found_engines
        fitting = {
            name: OverlayState(state="available", reason="vLLM 0.33.0")
            for name in (AUTOROUND_INT8, QUANTIZED_EMBEDDING)
        }
        cuda = [replace(one, overlays=fitting) if one.platform == "cuda" else one for one in found]
        session.__dict__["_found_engines"] = (cuda, problems)
        return session

    return make


@pytest.fixture
def session(make_session: MakeSession) -> Session:
    """The session of a machine without a GPU."""
    return make_session()
