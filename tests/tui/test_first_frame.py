"""What the first frame must not wait for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_SCRIPT = """
import json, sys
from cockpit.tui.app import CockpitApp

def first_frame_is_drawn(app):
    print(json.dumps(sorted(sys.modules)), flush=True)
    app.exit()

CockpitApp._after_first_frame = first_frame_is_drawn
CockpitApp().run(headless=True, size=(120, 35))
"""
_LATER = (
    *("httpx", "psutil", "pynvml", "prometheus_client", "http.client", "statistics"),
    *("cockpit.session", "cockpit.supervisor", "cockpit.telemetry", "cockpit.planner", "cockpit.launch.plan"),
    *("cockpit.tui.screens.card", "cockpit.tui.screens.instance", "cockpit.tui.screens.instances"),
    *("cockpit.tui.screens.fleet", "cockpit.fleet_watch"),
    *("textual.widgets._data_table", "textual.widgets._log"),
)
"""Modules of half a dozen milliseconds and more, together twice what Textual itself takes."""


def test_the_first_frame_loads_nothing_that_it_does_not_show(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=600, check=True)
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert "cockpit.tui.screens.catalog" in loaded
    assert [name for name in _LATER if name in loaded] == []


_NEVER = (
    *("argparse", "email", "http.client", "importlib.metadata", "statistics", "stringprep", "urllib.request"),
    *("httpx", "prometheus_client", "cockpit.rig.probe_script"),
)
"""Modules of a quarter to several MB that no screen needs."""


def test_a_live_screen_loads_nothing_that_it_does_not_need() -> None:
    code = (
        "import json, sys\n"
        "import cockpit.cli.main, cockpit.session, cockpit.tui.app, cockpit.tui.screens.instance\n"
        "from cockpit.rig.host import port_is_free\n"
        "from cockpit.watch import watch_url\n"
        "port_is_free('127.0.0.1', 9)\n"
        "watch_url('http://127.0.0.1:9').tick()\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    loaded = json.loads(done.stdout)
    assert "cockpit.telemetry.fetch" in loaded
    assert [name for name in _NEVER if name in loaded] == []
