"""Overlays in a plan, the check of what they patch, and the fold, all without vLLM."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes import ENGINE, RTX, W4, entry, facts, plan

from cockpit.catalog.slug import Weights
from cockpit.launch.overlay import FOLDER, OVERLAYS
from cockpit.rig.facts import has_amx
from cockpit.rig.types import HostFacts, OverlayState
from cockpit.rules.int8 import SWITCH
from cockpit.rules.plan_rules import refusals

COMMON = str(FOLDER / "common")
INT8 = str(FOLDER / "autoround_int8")
EMBEDDING = str(FOLDER / "quantized_embedding")
STOCK = {"autoround_int8": False, "quantized_embedding": False}
PACKED = Weights(format="compressed-tensors", repo="o/m", bits=6, symmetric=True, embedding_bits=8)


def engine(state: Any, **fields: Any) -> Any:
    known = OverlayState(state=state, reason="vLLM 0.33.0")
    return msgspec.structs.replace(ENGINE, overlays=dict.fromkeys(OVERLAYS, known), **(STOCK | fields))


def module(folder: str, name: str) -> ModuleType:
    """A module of an overlay, as the server's own Python finds it."""
    for place in (COMMON, folder):
        if place not in sys.path:
            sys.path.append(place)
    return importlib.import_module(name)


anchors = module(COMMON, "cockpit_overlay")
folding = module(INT8, "cockpit_int8_fold")


def test_int8_on_brings_its_overlay_and_off_brings_nothing() -> None:
    with_it = plan("int8=on", with_facts=facts(engine=engine("available")))
    assert (with_it.env[SWITCH], with_it.env["PYTHONPATH"]) == ("int8", os.pathsep.join([INT8, COMMON]))
    assert with_it.overlays == ("autoround-int8",)
    assert "VLLM_PLUGINS" not in with_it.env and "COCKPIT_OVERLAY_FORCE" not in with_it.env
    without = plan("int8=off", with_facts=facts(engine=engine("available")))
    assert without.overlays == ()
    assert not {SWITCH, "PYTHONPATH", "VLLM_PLUGINS"} & without.env.keys()
    assert {**with_it.env, SWITCH: None, "PYTHONPATH": None} == {**without.env, SWITCH: None, "PYTHONPATH": None}
    assert with_it.argv == without.argv


def test_without_a_known_engine_the_overlay_is_there_and_checks_by_itself() -> None:
    assert plan("int8=on", with_facts=facts(engine=None, engine_problem="none")).overlays == ("autoround-int8",)


def test_a_vllm_that_has_both_cures_gets_no_overlay_and_is_to_be_measured() -> None:
    planned = plan("int8=on", with_facts=facts(engine=engine("needless", autoround_int8=True)))
    assert planned.overlays == () and "PYTHONPATH" not in planned.env
    (finding,) = planned.findings
    assert (finding.rule, finding.severity) == ("int8-by-itself", "note")


def test_a_vllm_that_only_hands_the_switch_on_is_refused_and_forced_with_the_overlay() -> None:
    planned = plan("int8=on", with_facts=facts(engine=engine("unsupported", autoround_int8=True)))
    (refused,) = refusals(planned.findings)
    assert "may read the negative scales of AutoRound weights wrongly (vllm#48905)" in refused.message
    assert refusals(planned.findings, force=True) == ()
    assert planned.overlays == ("autoround-int8",) and planned.env["COCKPIT_OVERLAY_FORCE"] == "1"


def test_a_refused_switch_costs_no_memory_in_the_forecast() -> None:
    slug = entry(PACKED)
    known = facts(engine=engine("needless", quantized_embedding=True, humming="0.1"))
    assert plan("int8=on", of=slug, with_facts=known).forecast == plan(of=slug, with_facts=known).forecast


@pytest.mark.parametrize(
    ("caller", "path", "plugins"),
    [
        ({"PYTHONPATH": "/mine:/other"}, f"{INT8}:{COMMON}:/mine:/other", None),
        ({"PYTHONPATH": ""}, f"{INT8}:{COMMON}", None),
        ({"VLLM_PLUGINS": "lora"}, f"{INT8}:{COMMON}", "cockpit_autoround_int8,lora"),
        ({"VLLM_PLUGINS": ""}, f"{INT8}:{COMMON}", "cockpit_autoround_int8"),
    ],
)
def test_what_the_caller_has_set_stays_behind_it(caller: dict[str, str], path: str, plugins: str | None) -> None:
    planned = plan("int8=on", with_facts=facts(caller, engine=engine("available")))
    assert planned.env["PYTHONPATH"] == path
    assert planned.env.get("VLLM_PLUGINS") == plugins


def test_the_slugs_own_pythonpath_stays_too() -> None:
    of = entry(W4, env={"PYTHONPATH": "/slug", "VLLM_PLUGINS": "a,b"})
    planned = plan("int8=on", of=of, with_facts=facts({"PYTHONPATH": "/caller"}, engine=engine("available")))
    assert planned.env["PYTHONPATH"] == f"{INT8}:{COMMON}:/slug"
    assert planned.env["VLLM_PLUGINS"] == "cockpit_autoround_int8,a,b"


def test_an_overlay_that_does_not_fit_is_refused_unless_forced() -> None:
    planned = plan("int8=on", with_facts=facts(engine=engine("unsupported")))
    (refused,) = refusals(planned.findings)
    assert refused.rule == "toggle-int8" and "does not fit: vLLM 0.33.0" in refused.message
    assert refusals(planned.findings, force=True) == ()
    assert planned.env["COCKPIT_OVERLAY_FORCE"] == "1"


def test_an_overlay_that_fits_is_named_in_a_note() -> None:
    planned = plan("int8=on", with_facts=facts(engine=engine("available")))
    (finding,) = planned.findings
    assert (finding.rule, finding.severity, finding.subject) == ("int8-overlay", "note", "int8")
    assert finding.message.startswith("needs overlay ✓ autoround-int8 fits vLLM 0.33.0")


@pytest.mark.parametrize(("state", "severity"), [("available", "note"), ("unsupported", "block")])
def test_packed_embeddings_bring_theirs(state: str, severity: str) -> None:
    planned = plan(of=entry(PACKED), with_facts=facts(engine=engine(state, humming="0.1")))
    assert planned.overlays == ("quantized-embedding",)
    assert planned.env["PYTHONPATH"] == f"{EMBEDDING}:{COMMON}"
    assert planned.env["COCKPIT_QUANTIZED_EMBEDDING"] == "1"
    (finding,) = [one for one in planned.findings if one.rule == "embedding-overlay"]
    assert finding.severity == severity


@pytest.mark.parametrize("known", [None, engine("available"), engine("unsupported")])
@pytest.mark.parametrize("format", ["auto-round", "gptq", "fp8", "nvfp4"])
def test_embeddings_that_the_overlay_would_not_touch_bring_nothing(format: Any, known: Any) -> None:
    of = msgspec.structs.replace(PACKED, format=format, bits=8)
    planned = plan("int8=off", of=entry(of), with_facts=facts(engine=known))
    assert planned.overlays == () and not {"PYTHONPATH", "COCKPIT_QUANTIZED_EMBEDDING"} & planned.env.keys()
    (finding,) = [one for one in planned.findings if one.rule.startswith("embedding")]
    assert finding.rule == "embedding-packing"


@pytest.mark.parametrize(
    ("of", "choice", "rule", "overlay"),
    [
        (W4, "int8=on", "int8-stock-engine", "autoround-int8"),
        (PACKED, "int8=off", "embedding-overlay", "quantized-embedding"),
    ],
)
def test_an_overlay_that_is_applied_unseen_is_not_asked_for_once_more(
    of: Any, choice: str, rule: str, overlay: str
) -> None:
    planned = plan(choice, of=entry(of), with_facts=facts(engine=None))
    assert planned.overlays == (overlay,)
    (finding,) = [one for one in planned.findings if one.rule == rule]
    assert finding.severity == "warn"
    assert f"the command loads the overlay {overlay} for that" in finding.message
    assert "checked as soon as a vLLM is found" in finding.message
    assert "Use a vLLM" not in finding.fix


def test_a_vllm_that_reads_packed_embeddings_gets_no_overlay() -> None:
    planned = plan(of=entry(PACKED), with_facts=facts(engine=engine("needless", quantized_embedding=True)))
    assert planned.overlays == () and "PYTHONPATH" not in planned.env


COLON = Path("/home/me/a:b/site-packages/cockpit/launch/overlays")


@pytest.mark.parametrize(
    ("settings", "weights", "fix"),
    [(["int8=on"], W4, "or set int8=off."), ([], PACKED, "or use a vLLM that needs no overlay.")],
)
def test_a_colon_in_the_cockpits_path_refuses_what_needs_an_overlay(
    settings: list[str], weights: Weights, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cockpit.launch.overlay.FOLDER", COLON)
    known = facts(engine=engine("available", humming="0.1"))
    (refused,) = refusals(plan(*settings, of=entry(weights), with_facts=known).findings, force=True)
    assert refused.rule == "overlay-path" and str(COLON) in refused.message and refused.fix.endswith(fix)


def test_a_colon_in_the_cockpits_path_is_nothing_to_a_plan_without_overlays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cockpit.launch.overlay.FOLDER", COLON)
    described = msgspec.structs.replace(RTX, described="other machine")
    for known in (
        facts(engine=engine("needless", autoround_int8=True)),
        facts(engine=engine("available"), rig=described),
    ):
        assert refusals(plan("int8=on", with_facts=known).findings) == ()
    assert refusals(plan("int8=off", with_facts=facts(engine=engine("available"))).findings) == ()


@pytest.mark.parametrize(("amx", "build"), [(True, "cpu"), (False, "cpu"), (True, "cuda")])
def test_leave_for_amx_is_asked_on_processors_that_have_it_by_the_cpu_build_only(amx: bool, build: str) -> None:
    known = facts(host=HostFacts(amx=amx), engine=None)
    found = plan(of=entry(Weights(format="bf16", repo="o/m"), platform=build), with_facts=known)
    wanted = amx and build == "cpu"
    assert found.overlays == (("cpu-amx",) if wanted else ())
    assert found.env.get("COCKPIT_CPU_AMX") == ("1" if wanted else None)
    assert ("PYTHONPATH" in found.env) is wanted
    assert any(one.rule == "cpu-amx" and one.severity == "note" for one in found.findings) is wanted


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the system call is one of x86")
def test_the_kernel_is_asked_for_amx_and_its_answer_told() -> None:
    asked = [module(str(FOLDER / "cpu_amx"), "cockpit_cpu_amx").asked() for _ in range(2)]
    if has_amx():
        assert asked[1] == "needless: this process may use AMX tiles already"
    else:
        assert all(one.startswith("the kernel refuses AMX tiles: ") for one in asked)


TRIED = ["0.26.0", "0.28.0", "0.30.0", "0.32.0", "0.33.0"]
PATCHING = ("when_imported", "import vllm", "from vllm")
"""Only an overlay that patches nothing needs no anchors."""


def test_what_was_tried_once_is_not_lost() -> None:
    for folder in ("autoround_int8", "quantized_embedding"):
        assert list(json.loads((FOLDER / folder / "anchors.json").read_text())["versions"]) == TRIED


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_folder_holds_what_vllm_looks_for(name: str) -> None:
    overlay = OVERLAYS[name]
    folder = FOLDER / overlay.folder
    (found,) = metadata.distributions(path=[str(folder)])
    (point,) = found.entry_points.select(group="vllm.general_plugins")
    assert (point.name, point.value) == (overlay.plugin, f"{overlay.plugin}:register")
    assert (folder / f"{overlay.plugin}.py").is_file()
    if not (folder / "anchors.json").exists():
        source = (folder / f"{overlay.plugin}.py").read_text()
        assert [word for word in PATCHING if word in source] == []
        return
    known = json.loads((folder / "anchors.json").read_text())
    assert known["id"] == name
    assert list(known["versions"]) == [version for version in TRIED if version in known["versions"]] != []
    for functions in known["versions"].values():
        assert list(functions) == known["functions"]


# The check.

SOURCE = 'class A:\n    def f(self, x: int = 1) -> int:\n        """Doc."""\n        return g(x, "a")  # why\n'
KNOWN = {
    "id": "o",
    "cure": {"files": ["m.py"], "mentions": ["cured"]},
    "versions": {"1.0": {"m.py::A.f": list(anchors.describe(anchors.find(__import__("ast").parse(SOURCE), "A.f")))}},
}


def judged(source: str | None, version: str = "1.0") -> Any:
    files = {} if source is None else {"m.py": source}
    return anchors.judge(KNOWN, version, anchors.Sources(files.__getitem__))


@pytest.mark.parametrize(
    "same",
    [
        SOURCE,
        SOURCE.replace('"""Doc."""', '"""Other words."""').replace("  # why", ""),
        SOURCE.replace('g(x, "a")', "g(\n            x,\n            'a',\n        )"),
        "import os\n\n\n" + SOURCE + "\n\ndef other(): pass\n",
    ],
)
def test_comments_docstrings_layout_and_neighbours_do_not_matter(same: str) -> None:
    assert judged(same) == ("available", "vLLM 1.0")
    assert judged(same, "1.0+cpu").state == "available"


@pytest.mark.parametrize(
    "other",
    [
        SOURCE.replace('"a"', '"b"'),
        SOURCE.replace("x: int = 1", "x: int = 2"),
        SOURCE.replace("def f", "async def f"),
        SOURCE.replace("def f", "def h"),
        SOURCE.replace("class A", "class B"),
        SOURCE.replace("    def f", "    @staticmethod\n    def f"),
        "def (",
        "",
        None,
    ],
)
def test_code_that_moved_or_changed_is_unsupported(other: str | None) -> None:
    verdict = judged(other)
    assert verdict.state == "unsupported"
    assert "A.f of this vLLM 1.0 is not the code it was made for" in verdict.reason


def test_an_unknown_version_is_unsupported_even_with_the_same_code() -> None:
    assert judged(SOURCE, "1.1") == ("unsupported", "it was never tried on vLLM 1.1, only on 1.0")


def test_a_vllm_with_the_cure_needs_nothing_whatever_its_version() -> None:
    assert judged(SOURCE + "\ncured = 1\n", "9.9").state == "needless"


def test_force_passes_a_changed_body_and_never_another_signature() -> None:
    def problem(source: str) -> Any:
        return anchors.patchable(KNOWN, anchors.Sources({"m.py": source}.__getitem__))

    assert problem(SOURCE.replace('"a"', '"b"')) is None
    for gone in (SOURCE.replace("x: int", "y: int"), SOURCE.replace("def f", "def g"), ""):
        assert problem(gone) == "A.f is gone or takes other arguments"


def test_a_cure_whose_other_half_no_source_shows_counts_on_versions_that_it_was_tried_on() -> None:
    known = {**KNOWN, "doubt": {"doubt": "may be half cured", "versions": ["2.0"]}}
    sources = anchors.Sources({"m.py": SOURCE + "\ncured = 1\n"}.__getitem__)
    assert anchors.judge(known, "1.0", sources) == ("unsupported", "vLLM 1.0 may be half cured")
    assert anchors.judge(known, "2.0+cpu", sources).state == "needless"
    (cure,) = anchors.load(Path(INT8))["cure"]["files"]
    half = anchors.Sources({cure: "def f(): return input_dtype"}.__getitem__)
    assert anchors.judge(anchors.load(Path(INT8)), "0.40.0", half).state == "unsupported"
    assert "doubt" not in anchors.load(Path(EMBEDDING))


def test_a_module_that_was_looked_for_before_its_import_is_patched_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cockpit_looked_for.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[ModuleType] = []
    anchors.when_imported("cockpit_looked_for", seen.append)
    assert importlib.util.find_spec("cockpit_looked_for") is not None and not seen
    imported = importlib.import_module("cockpit_looked_for")
    assert seen == [imported] and imported.value == 1
    importlib.reload(imported)
    assert len(seen) == 1 and not any(getattr(one, "_name", "") == "cockpit_looked_for" for one in sys.meta_path)
    del sys.modules["cockpit_looked_for"]


def test_a_keyword_in_every_call_is_a_cure_as_well() -> None:
    cure = {"files": ["a.py", "b.py"], "call": "E", "keyword": "q"}
    for first, second, expected in (
        ("E(1, q=2)", "E(q=1)", True),
        ("E(1)", "E(q=1)", False),
        ("pass", "pass", False),
    ):
        sources = anchors.Sources({"a.py": first, "b.py": second}.__getitem__)
        assert anchors.cured(sources, cure) is expected


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "cockpit_late_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("cockpit_late_module", None)


@pytest.mark.usefixtures("late")
def test_a_module_is_patched_right_after_its_import_and_only_once() -> None:
    seen: list[int] = []
    finders = list(sys.meta_path)
    anchors.when_imported("cockpit_late_module", lambda found: seen.append(found.value))
    assert seen == [] and "cockpit_late_module" not in sys.modules
    found = importlib.import_module("cockpit_late_module")
    importlib.import_module("cockpit_late_module")
    assert seen == [1] and sys.meta_path == finders
    assert found.__spec__ is not None and type(found.__spec__.loader).__module__ != anchors.__name__
    anchors.when_imported("cockpit_late_module", lambda found: seen.append(2))
    assert seen == [1, 2]


# The fold.

CODES = st.lists(st.integers(0, 15), min_size=8, max_size=8)


def packed(codes: list[int]) -> int:
    """Eight codes as a signed 32-bit word."""
    word = sum(code << (4 * place) for place, code in enumerate(codes))
    return word - (1 << 32) if word >> 31 else word


def unpacked(word: int) -> list[int]:
    return [(word >> (4 * place)) & 15 for place in range(8)]


@given(CODES)
def test_with_zero_point_seven_the_fold_is_exact(codes: list[int]) -> None:
    new = unpacked(folding.mirrored(packed(codes)))
    assert [-(code - 8) for code in codes] == [code - folding.FOLDED_ZERO_POINT for code in new]


@given(CODES)
def test_without_zero_points_only_code_zero_loses_one_step(codes: list[int]) -> None:
    new = unpacked(folding.clamped(packed(codes)))
    assert [code - 8 for code in new] == [min(7, 8 - code) for code in codes]
    assert folding.count_zero_codes(packed(codes)) == codes.count(0)
