"""Compares the overlays' anchors.json with vLLM's own sources, or writes them anew.

python scripts/overlay_anchors.py                    every version that an overlay lists
python scripts/overlay_anchors.py --write 0.34.0     adds a version; only after the overlay was tried on it
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from vllm_sources import UnreachableError, sources

OVERLAYS = Path(__file__).parents[1] / "cockpit" / "launch" / "overlays"


def checker() -> Any:
    """The module that the server and the probe check with."""
    spec = importlib.util.spec_from_file_location("cockpit_overlay", OVERLAYS / "common" / "cockpit_overlay.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(version: str, anchors: dict[str, Any]) -> Any:
    """The sources that an overlay looks at, of one version."""
    places = {name.partition("::")[0] for name in anchors["functions"]} | set(anchors["cure"]["files"])
    return checker().Sources(sources(version, places).__getitem__)


def functions(version: str, anchors: dict[str, Any]) -> dict[str, list[str]]:
    """Signature and hash of every function of an overlay in one version. Raises KeyError for one that is gone."""
    found = read(version, anchors)
    made = {}
    for name in anchors["functions"]:
        function = found.function(name)
        if function is None:
            raise KeyError(f"{name} is not in vLLM {version}")
        made[name] = list(function)
    return made


def main() -> int:
    """Exit 1 when an anchor differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("versions", nargs="*")
    arguments = parser.parse_args()
    differs = False
    for file in sorted(OVERLAYS.glob("*/anchors.json")):
        anchors = json.loads(file.read_text(encoding="utf-8"))
        anchors.setdefault("versions", {})
        for version in arguments.versions or anchors["versions"]:
            try:
                made = functions(version, anchors)
            except (KeyError, UnreachableError) as error:
                print(f"{anchors['id']} {version}: {error}", file=sys.stderr)
                differs = True
                continue
            same = anchors["versions"].get(version) == made
            print(f"{anchors['id']} {version}: {len(made)} functions {'as listed' if same else 'differ'}")
            differs = differs or not same
            anchors["versions"][version] = made
        if arguments.write:
            file.write_text(json.dumps(anchors, indent=1) + "\n", encoding="utf-8")
    return int(differs and not arguments.write)


if __name__ == "__main__":
    sys.exit(main())
