"""Slug + settings → argv and environment, exactly."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recipes import ENGINE, RTX, entry, facts, flags, plan

from cockpit import paths
from cockpit.catalog.load import load
from cockpit.catalog.slug import Weights
from cockpit.errors import CockpitError
from cockpit.launch.plan import make_plan, parse_settings
from cockpit.launch.toggles import BY_ID, TOGGLES
from cockpit.rules.int8 import SWITCH

CATALOG = load(paths.shipped("slugs"))


def test_the_shipped_dual_recipe_becomes_this_command() -> None:
    planned = make_plan(CATALOG.get("vllm/dual"), {}, facts())
    assert planned.argv[:3] == ("/e/bin/vllm", "serve", "Lorbus/Qwen3.6-27B-int4-AutoRound")
    assert flags(planned) == {
        "served-model-name": "dual",
        "kv-cache-dtype": "fp8_e4m3",
        "speculative-config": {"method": "mtp", "num_speculative_tokens": 3},
        "max-model-len": "262144",
        "gpu-memory-utilization": "0.92",
        "max-num-seqs": "2",
        "tensor-parallel-size": "2",
        "host": "127.0.0.1",
        "port": "8000",
        "max-num-batched-tokens": "8192",
        "reasoning-parser": "qwen3",
        "enable-auto-tool-choice": True,
        "tool-call-parser": "qwen3_coder",
        "override-generation-config": {"temperature": 0.6, "top_p": 0.95, "top_k": 20},
        "disable-custom-all-reduce": True,
    }
    assert planned.findings == ()
    assert (planned.slug, planned.engine, planned.url) == ("vllm/dual", "e", "http://127.0.0.1:8000")


def test_a_checkpoint_folder_is_given_as_an_absolute_path() -> None:
    planned = plan(of=entry(Weights(format="bf16", path="../weights")))
    assert planned.argv[2] == planned.model == "/weights"


def test_without_an_engine_the_plan_can_still_be_read() -> None:
    planned = plan(with_facts=facts(engine=None, engine_problem="there is none"))
    assert planned.argv[0] == "vllm"
    assert planned.engine == ""
    assert planned.findings[0].message == "there is none"


def test_flags_of_every_shape_become_words() -> None:
    shaped = {"seed": 7, "trust-remote-code": True, "quiet": False, "temperature": -0.5, "stop": ["a", "b"],
              "config": {"x": "é", "y": 1}, "empty": ""}  # fmt: skip
    argv = plan(of=entry(flags=shaped)).argv
    words = argv[argv.index("--seed") :]
    assert words[:2] == ("--seed", "7")
    assert "--trust-remote-code" in words
    assert "--quiet" not in words
    assert "--temperature=-0.5" in words
    assert words[words.index("--stop") + 1 :][:2] == ("a", "b")
    assert words[words.index("--config") + 1] == '{"x":"\\u00e9","y":1}'
    assert words[words.index("--empty") + 1] == ""


def test_a_served_name_that_looks_like_a_flag_stays_a_value() -> None:
    assert "--served-model-name=-x" in plan(of=entry(served_model_name="-x")).argv


def test_the_environment_holds_differences_only() -> None:
    own = entry(env={"A": "1", "B": "2"})
    planned = plan(of=own, with_facts=facts({"A": "1", "B": "other", "PATH": "/bin"}))
    assert "A" not in planned.env
    assert planned.env["B"] == "2"
    assert "PATH" not in planned.env
    everything = {**{name: value or "" for name, value in planned.env.items()}, "A": "1"}
    assert plan(of=own, with_facts=facts(everything)).env == {}


def test_a_key_in_the_environment_counts_as_a_key() -> None:
    exposed = ("host=0.0.0.0",)
    assert [finding.rule for finding in plan(*exposed).findings] == ["exposed-without-key"]
    assert plan(*exposed, with_facts=facts({"VLLM_API_KEY": "x"})).findings == ()
    assert plan(*exposed, of=entry(env={"VLLM_API_KEY": "x"})).findings == ()


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:8000"), ("0.0.0.0", "http://127.0.0.1:8000"), ("::", "http://[::1]:8000"),
     ("fe80::1", "http://[fe80::1]:8000"), ("rig.lan", "http://rig.lan:8000")],
)  # fmt: skip
def test_the_url_can_be_reached_from_this_host(host: str, url: str) -> None:
    assert plan(f"host={host}").url == url


def test_the_configured_host_is_the_default() -> None:
    planned = plan(with_facts=facts(default_host="0.0.0.0", free_port=8017))
    assert flags(planned)["host"] == "0.0.0.0"
    assert flags(planned)["port"] == "8017"


@pytest.mark.parametrize(
    ("pair", "title", "fix"),
    [
        ("int8", "--set int8 has no value", "Write --set int8=VALUE."),
        ("=on", "no toggle is named ''", "There are: int8, kv_cache_dtype, "),
        ("", "--set  has no value", "Write --set int8=VALUE."),
        ("int9=on", "no toggle is named 'int9'", "Did you mean int8?"),
        ("max_model=1", "no toggle is named 'max_model'", "Did you mean max_model_len"),
        ("zzz=1", "no toggle is named 'zzz'", "There are: int8, kv_cache_dtype, "),
        ("int8=maybe", "int8=maybe cannot be used", "Use one of off, on."),
    ],
)
def test_a_setting_that_cannot_be_used_is_one_sentence(pair: str, title: str, fix: str) -> None:
    with pytest.raises(CockpitError) as caught:
        parse_settings([pair])
    assert caught.value.title == title
    assert caught.value.fix.startswith(fix)


def test_settings_take_dashes_and_the_last_one_wins() -> None:
    assert parse_settings(["max-model-len=4096", "max_model_len=8192", "host=a"]) == {
        "max_model_len": 8192,
        "host": "a",
    }


TEXTS = {
    "int8": ["on", "off"],
    "kv_cache_dtype": list(BY_ID["kv_cache_dtype"].kind.words),  # type: ignore[union-attr]
    "speculative_tokens": ["0", "1", "16"],
    "max_model_len": ["16", "256K", "16M"],
    "gpu_memory_utilization": ["0.05", "1", "default"],
    "max_num_seqs": ["1", "4096", "default"],
    "prefix_caching": ["on", "off", "default"],
    "vision": ["on", "off"],
    "enforce_eager": ["on", "off"],
    "gpus": ["0", "1,0", "0,1,2,3", "7"],
    "tensor_parallel": ["1", "2", "64"],
    "host": ["127.0.0.1", "0.0.0.0", "::"],
    "port": ["1", "65535"],
}
CHOSEN = st.fixed_dictionaries({}, optional={name: st.sampled_from(texts) for name, texts in TEXTS.items()})
ENVIRONS = st.dictionaries(
    st.sampled_from(
        [SWITCH, "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "NCCL_P2P_DISABLE", "VLLM_CPU_KVCACHE_SPACE"]
    ),
    st.sampled_from(["", "0", "1", "int8"]),
)


def test_every_toggle_is_tried_below() -> None:
    assert list(TEXTS) == [toggle.id for toggle in TOGGLES]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(CATALOG.entries), CHOSEN, ENVIRONS)
def test_any_plan_gives_each_flag_once_and_only_differences(
    chosen_entry: Any, chosen: dict[str, str], environ: dict[str, str]
) -> None:
    pairs = [f"{name}={text}" for name, text in chosen.items()]
    planned = make_plan(chosen_entry, parse_settings(pairs), facts(environ))
    flags(planned)  # asserts that none comes twice
    assert all(isinstance(word, str) and "\0" not in word for word in planned.argv)
    for name, value in planned.env.items():
        assert environ.get(name) != value
    # Applied to the caller's environment, the switch is there with the one right value, or not at all.
    final = {name: value for name, value in {**environ, **planned.env}.items() if value is not None}
    assert final.get(SWITCH) in (None, "int8")
    if SWITCH in final:
        assert planned.values["int8"] == "on"
    assert set(planned.values) == set(BY_ID)


def test_a_plan_is_plain_data() -> None:
    planned = plan()
    assert msgspec.json.decode(msgspec.json.encode(planned), type=dict)["argv"] == list(planned.argv)
    assert facts(rig=RTX, engine=ENGINE) == facts()
