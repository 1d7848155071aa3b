"""What scripts read: one JSON value on stdout with the promised names and types, prose on stderr only."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_done import Cockpit

from cockpit import paths

Shape = Any
NUMBER = int | float
MINE = "name: vllm/mine\nmodel: Mine\nweights: {repo: o/n, format: bf16}\nmax_model_len: 4096\n"


def assert_shape(value: Any, shape: Shape, where: str = "$") -> None:
    """``shape`` is a type, a set of allowed words, a one-element list, or a mapping of names that must be there."""
    if isinstance(shape, dict):
        assert isinstance(value, dict), where
        for name, inner in shape.items():
            assert name in value, f"{where}.{name} is missing"
            assert_shape(value[name], inner, f"{where}.{name}")
    elif isinstance(shape, list):
        assert isinstance(value, list), where
        for at, item in enumerate(value):
            assert_shape(item, shape[0], f"{where}[{at}]")
    elif isinstance(shape, set):
        assert value in shape, f"{where} is {value!r}"
    else:
        assert isinstance(shape, type | types.UnionType)
        wrong_bool = isinstance(value, bool) and shape in (int, NUMBER)
        assert isinstance(value, shape) and not wrong_bool, f"{where} is {value!r}"


TOGGLE = {"state": {"offered", "blocked"}, "value": object, "reason": str | None, "fix": str | None}
INT8 = {**TOGGLE, "value": {"on", "off"}}
FINDING = {"rule": str, "severity": {"block", "warn", "note"}, "subject": str, "message": str, "fix": str}
SLUG = {
    "name": str,
    "aliases": [str],
    "model": str,
    "weights": {"repo": str, "format": str, "bits": int | None, "moe": bool, "size_bytes": int | None},
    "tensor_parallel": int,
    "max_model_len": int,
    "kv_cache_dtype": str,
    "toggles": {"int8": INT8, "kv_cache_dtype": TOGGLE, "max_model_len": TOGGLE, "gpus": TOGGLE, "port": TOGGLE},
    "file": str,
}
ERROR = {"title": str, "detail": str, "fix": str}


def test_slugs_are_a_list_of_recipes(cockpit: Cockpit) -> None:
    done = cockpit("slugs", "--json")
    assert (done.code, done.err) == (0, "")
    listed = done.json
    assert len(listed) == len(list(paths.shipped("slugs").rglob("*.yaml")))
    assert_shape(listed, [SLUG])
    by_name = {slug["name"]: slug for slug in listed}
    assert by_name["vllm/minimal"]["speculative"] is None
    dual = by_name["vllm/dual"]
    assert dual["speculative"] == {"method": "mtp", "tokens": 3}
    assert dual["weights"]["size_bytes"] == round(17.5 * 2**30)
    assert dual["toggles"]["int8"] == {"state": "offered", "value": "off", "reason": None, "fix": None}
    assert by_name["vllm/qwen38-27b-dual-fast"]["toggles"]["int8"]["value"] == "on"
    blocked = by_name["vllm/qwen-35b-a3b-dual"]["toggles"]["int8"]
    assert (blocked["state"], blocked["value"]) == ("blocked", "off")
    assert "mixture of experts" in blocked["reason"]
    assert dual["toggles"]["gpus"]["value"] == [0, 1]


def test_a_filter_narrows_the_list(cockpit: Cockpit) -> None:
    assert [slug["name"] for slug in cockpit("slugs", "tiny", "cpu", "--json").json] == ["cpu/tiny-qwen3"]
    assert cockpit("slugs", "nothing-like-it", "--json").json == []


def test_broken_slugs_are_entries_and_hide_nothing(cockpit: Cockpit, write_slug: Callable[[str, str], Path]) -> None:
    file = write_slug("broken.yaml", "name: vllm/dual\nmodel: [\n")
    good = write_slug("good.yaml", MINE)
    done = cockpit("slugs", "--json")
    assert done.code == 0
    by_name = {slug["name"]: slug for slug in done.json if "error" not in slug}
    assert by_name["vllm/mine"]["file"] == str(good)
    assert by_name["vllm/dual"]["file"].startswith(str(paths.shipped("slugs")))
    (broken,) = [slug for slug in done.json if "error" in slug]
    assert_shape(broken, {"name": str, "file": str, "error": ERROR})
    assert (broken["name"], broken["file"]) == ("vllm/dual", str(file))
    assert f"{file}, line 3: not valid YAML" in broken["error"]["title"]
    listed = cockpit("slugs")
    assert listed.code == 0
    assert f"✕ vllm/dual: {file}, line 3: not valid YAML" in listed.err
    assert "vllm/mine" in listed.out


def test_a_file_name_that_is_not_utf8_does_no_harm(cockpit: Cockpit) -> None:
    paths.user_slugs().mkdir(parents=True)
    (paths.user_slugs() / "caf\udce9.yaml").write_text(MINE)
    (paths.user_slugs() / "bad\udce9.yaml").write_text("name: vllm/bad\n")
    files = [slug["file"] for slug in cockpit("slugs", "--json").json]
    assert str(paths.user_slugs() / "caf\udce9.yaml") in files
    assert cockpit("slugs").code == 0


def test_json_is_ascii_whatever_a_recipe_says(cockpit: Cockpit, write_slug: Callable[[str, str], Path]) -> None:
    write_slug("mine.yaml", MINE.replace("Mine", '"caf\u00e9 \u009b2J \u202e"').replace("\u009b", "\\u009b"))
    write_slug("fine.yaml", MINE.replace("Mine", '"caf\u00e9 \u202e"'))
    done = cockpit("slugs", "--json")
    assert done.out.isascii()
    assert "control characters are not allowed" in str([slug for slug in done.json if "error" in slug])
    assert [slug["model"] for slug in done.json if slug["name"] == "vllm/mine" and "error" not in slug] == [
        "caf\u00e9 \u202e"
    ]


def test_check_names_every_toggle_and_every_finding(cockpit: Cockpit, cpu_engine: Path) -> None:
    done = cockpit("check", "cpu/tiny-qwen3", "--engine", str(cpu_engine), "--json")
    assert (done.code, done.err) == (0, "")
    checked = done.json
    assert_shape(checked, {"slug": str, "toggles": {"int8": INT8}, "findings": [FINDING]})
    assert checked["slug"] == "cpu/tiny-qwen3"
    # The fake vLLM has no help to read its flags from, and that is said.
    assert [finding["rule"] for finding in checked["findings"]] == ["flags-unknown"]
    assert "BF16: nothing is quantized" in checked["toggles"]["int8"]["reason"]
    for toggle in checked["toggles"].values():
        assert_shape(toggle, TOGGLE)
        assert (toggle["state"] == "blocked") == bool(toggle["reason"])


def test_check_as_text_says_the_fix_of_every_blocked_switch_too(cockpit: Cockpit, cpu_engine: Path) -> None:
    words = ("check", "cpu/tiny-qwen3", "--engine", str(cpu_engine))
    text, found = cockpit(*words).out, cockpit(*words, "--json").json
    blocked = [one for one in found["toggles"].values() if one["state"] == "blocked"]
    assert blocked
    for one in blocked:
        assert f"blocked: {one['reason']}" + (f". {one['fix']}" if one["fix"] else "") in text


def test_check_ends_with_2_when_a_finding_blocks(cockpit: Cockpit, cpu_engine: Path) -> None:
    done = cockpit("check", "cpu/tiny-qwen3", "--engine", str(cpu_engine), "--set", "int8=on", "--json")
    assert done.code == 2
    assert_shape(done.json, {"findings": [FINDING]})
    found = [(finding["rule"], finding["severity"]) for finding in done.json["findings"]]
    assert found == [("toggle-int8", "block"), ("flags-unknown", "warn")]


def test_check_as_text_says_the_same(cockpit: Cockpit, cpu_engine: Path) -> None:
    done = cockpit("check", "cpu/tiny-qwen3", "--engine", str(cpu_engine), "--set", "int8=on")
    assert done.code == 2
    assert "int8 acts" in done.out
    assert "blocked: BF16: nothing is quantized" in done.out
    assert "✕ int8 is blocked: BF16" in done.out


PLAN = {
    "slug": str,
    "argv": [str],
    "env": dict,
    "cwd": str,
    "port": int,
    "gpus": [int],
    "findings": [FINDING],
    "forecast": dict | None,
}


def test_plan_is_the_exact_command(cockpit: Cockpit, cpu_engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_MARLIN_INPUT_DTYPE", "int8")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    done = cockpit("plan", "cpu/tiny-qwen3", "--engine", str(cpu_engine), "--set", "max_model_len=1K", "--json")
    assert (done.code, done.err) == (0, "")
    plan = done.json
    assert_shape(plan, PLAN)
    assert plan["argv"][:3] == [str(cpu_engine), "serve", str(paths.shipped("slugs") / "cpu" / "tiny-qwen3")]
    assert plan["argv"][plan["argv"].index("--max-model-len") + 1] == "1024"
    assert plan["argv"][plan["argv"].index("--host") + 1] == "127.0.0.1"
    assert plan["argv"][plan["argv"].index("--port") + 1] == str(plan["port"])
    assert plan["env"]["VLLM_MARLIN_INPUT_DTYPE"] is None
    assert "HF_HUB_OFFLINE" not in plan["env"]
    assert plan["gpus"] == []


def test_plan_asks_the_engine_about_a_flag_that_it_may_not_know(
    cockpit: Cockpit, cpu_engine: Path, write_slug: Callable[[str, str], Path]
) -> None:
    text = (paths.shipped("slugs") / "cpu" / "tiny-qwen3.yaml").read_text()
    checkpoint = paths.shipped("slugs") / "cpu" / "tiny-qwen3"
    text = text.replace("name: cpu/tiny-qwen3", "name: my/flag").replace("path: tiny-qwen3", f"path: {checkpoint}")
    write_slug("flag.yaml", text.replace("load-format: dummy", "load-format: dummy\n  no-such-flag: 5"))
    options = "\n".join(
        f"  --{name} X  words"
        for name in ("load-format", "max-model-len", "served-model-name", "max-num-seqs", "port")
    )
    sources = next(cpu_engine.parents[1].glob("lib/python3*/site-packages/vllm")) / "engine"
    sources.mkdir()
    (sources / "arg_utils.py").write_text('load.add_argument("--load-format")\n')
    shebang = cpu_engine.read_text()
    cpu_engine.write_text(f"{shebang}print({f'usage: vllm serve{chr(10) * 2}options:{chr(10)}{options}'!r})\n")
    done = cockpit("plan", "my/flag", "--engine", str(cpu_engine), "--json")
    assert done.code == 2
    assert any("--no-such-flag" in finding["message"] for finding in done.json["findings"])
    assert "Asking vLLM" in done.err


def test_plan_as_text_is_one_line_for_a_shell(cockpit: Cockpit, cpu_engine: Path) -> None:
    done = cockpit("plan", "cpu/tiny-qwen3", "--engine", str(cpu_engine))
    assert done.code == 0
    assert done.out.count("\n") == 1
    assert done.out.startswith("env DO_NOT_TRACK=1 ")


def test_a_refused_plan_is_shown_all_the_same(cockpit: Cockpit) -> None:
    done = cockpit("plan", "vllm/dual", "--json")
    assert done.code == 2
    assert_shape(done.json, PLAN)
    assert "engine-missing" in [finding["rule"] for finding in done.json["findings"]]
    assert cockpit("plan", "vllm/dual").err.startswith("✕ ")


def test_secrets_of_a_recipe_are_redacted(
    cockpit: Cockpit, cpu_engine: Path, write_slug: Callable[[str, str], Path]
) -> None:
    write_slug("mine.yaml", MINE + "platform: cpu\nenv: {VLLM_API_KEY: hunter2}\n")
    for words in (["--json"], []):
        done = cockpit("plan", "vllm/mine", "--engine", str(cpu_engine), *words)
        assert "hunter2" not in done.out + done.err
        assert "<redacted>" in done.out


@pytest.mark.parametrize(
    "words",
    [["check", "nope"], ["plan", "vllm/dual", "--set", "port=\udcff\x1b"], ["stop", "x"],
     ["top", "--seconds", "\udcff"], ["serve", "cpu/tiny-qwen3"], ["check", "\ud800"], ["logs", "\udcff"],
     ["logs", "x", "-f"]],
)  # fmt: skip
def test_an_error_is_one_json_value_too(cockpit: Cockpit, words: list[str]) -> None:
    done = cockpit(*words, "--json")
    assert done.code == 2
    assert_shape(done.json, {"error": ERROR})
    assert done.json["error"]["title"]
    assert done.out.isascii()
    assert "\x1b" not in done.err
    assert done.err.startswith("cockpit: ")


def test_ps_without_servers_is_an_empty_list(cockpit: Cockpit) -> None:
    assert cockpit("ps", "--json").json == []
    assert cockpit("ps").out.startswith("Nothing is served.")


def test_ps_names_an_unreadable_record_on_stderr(cockpit: Cockpit) -> None:
    paths.instances_home().mkdir(parents=True)
    (paths.instances_home() / "bad.json").write_text("{")
    done = cockpit("ps", "--json")
    assert (done.code, done.json) == (0, [])
    assert "bad.json is not an instance record" in done.err


def test_ps_with_a_file_in_place_of_the_state_folder_is_empty(cockpit: Cockpit, homes: Path) -> None:
    homes.mkdir()
    (homes / "state").write_text("")
    assert cockpit("ps", "--json").json == []


def test_engines_are_listed_with_what_they_can(
    cockpit: Cockpit, cpu_engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cockpit("engines", "--json").json == []
    monkeypatch.setenv("PATH", f"{cpu_engine.parent}:/usr/bin:/bin")
    done = cockpit("engines", "--json")
    assert_shape(
        done.json,
        [{"id": str, "path": str, "version": str, "platform": str, "wna16_bits": list | None,
          "wna16_zero_point_bits": list | None, "humming": str | None, "overlays": dict}],
    )  # fmt: skip
    (engine,) = done.json
    assert (engine["path"], engine["version"], engine["platform"]) == (str(cpu_engine), "0.32.0", "cpu")


def test_a_configured_engine_that_is_none_is_told_and_hides_nothing(cockpit: Cockpit) -> None:
    paths.config_home().mkdir(parents=True)
    (paths.config_home() / "config.yaml").write_text("engines: [/nowhere/vllm]\n")
    done = cockpit("engines", "--json")
    assert (done.code, done.json) == (0, [])
    assert "/nowhere/vllm does not exist" in done.err


def test_every_verb_takes_json(cockpit: Cockpit) -> None:
    from cockpit.cli.main import VERBS

    for verb in VERBS:
        help_text = cockpit(verb, "--help")
        assert help_text.code == 0
        assert "--json" in help_text.out


def test_the_version_is_one_line(cockpit: Cockpit) -> None:
    from cockpit import __version__

    assert cockpit("--version") == (0, f"cockpit {__version__}\n", "")
