"""The flags that a log tells: a dict's own, never those of a dict in it, however the line is cut."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.supervisor.diagnose.arguments import Arguments
from cockpit.supervisor.diagnose.reprs import read_arguments, read_dict

LINE = (
    "non-default args: {'model_tag': '/m/a', 'speculative_config': {'method': 'mtp', 'model': '/m/draft', "
    "'num_speculative_tokens': 3}, 'served_model_name': ['a', \"it's\"], 'compilation_config': {'mode': "
    "<CompilationMode.NONE: 0>, 'pass_config': {'fuse_x': True}}, 'hf_overrides': <function f.<lambda> at 0x7f>, "
    "'kv_events_config': KVEventsConfig(enable_kv_cache_events=True, publisher='zmq', port=5557), "
    "'chat_template': '{{ {\\'port\\': 9} }}', 'max_model_len': 65536}"
)


def told(line: str) -> Arguments:
    arguments = Arguments()
    arguments.non_default(line)
    return arguments


def test_keys_of_a_value_are_no_flags() -> None:
    flags = told(LINE)
    for key in ("method", "model", "num_speculative_tokens", "mode", "fuse_x", "publisher", "port"):
        assert not flags.chosen(key) and flags.get(key) is None
    assert flags.get("speculative_config") == {"method": "mtp", "model": "/m/draft", "num_speculative_tokens": 3}
    assert flags.get("kv_events_config") == {"enable_kv_cache_events": True, "publisher": "zmq", "port": 5557}
    assert flags.get("served_model_name") == ["a", "it's"]
    assert flags.get("max_model_len") == 65536


def test_the_flag_that_holds_a_key_is_known() -> None:
    flags = told(LINE)
    assert flags.holder("num_speculative_tokens") == "speculative_config"
    assert flags.holder("fuse_x") == "compilation_config"
    assert flags.holder("publisher") == "kv_events_config"
    assert flags.holder("max_model_len") is None


@pytest.mark.parametrize("end", range(len(LINE)))
def test_a_line_that_is_cut_anywhere_tells_nothing_that_the_whole_does_not(end: int) -> None:
    whole, cut = told(LINE), told(LINE[:end])
    for name in ("model_tag", "max_model_len", "served_model_name", "speculative_config", "model", "method", "port"):
        assert whole.chosen(name) or not cut.chosen(name)
        assert _is_part(cut.get(name), whole.get(name)), name


def _is_part(part: Any, whole: Any) -> bool:
    if isinstance(part, dict):
        return all(name in whole and _is_part(value, whole[name]) for name, value in part.items())
    if isinstance(part, list):
        return all(value in whole for value in part)
    return part is None or part == whole


def test_what_a_shortened_line_ends_with_is_no_value() -> None:
    assert told("non-default args: {'model': 'm', 'max_model_len': 65…").get("max_model_len") is None
    assert told("non-default args: {'model': 'm', 'kv_cache_dtype': fp8...").chosen("kv_cache_dtype")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(alphabet="ab'\"{}[]:,\\ ", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet="ab_'", max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(alphabet="abc_", min_size=1, max_size=5), VALUES, max_size=4))
def test_what_python_prints_is_read_back(value: dict[str, Any]) -> None:
    assert read_dict(repr(value)) == value


@given(st.text(alphabet="{}[]()<>'\",:=ab1. \\…", max_size=80))
def test_any_text_is_read(text: str) -> None:
    read_dict(text)
    read_arguments(text)


@pytest.mark.parametrize("part", ["{'a': ", "[", "'a': <", "f(x=", "\\", "<<a>", "'a', "])
def test_a_line_made_to_be_slow_or_deep_is_read_at_once(part: str) -> None:
    def cost(length: int) -> float:
        text = "{'k': " + part * (length // len(part))
        start = time.process_time()
        for _ in range(5):
            read_dict(text)
        return time.process_time() - start

    cost(100)
    assert cost(16_000) < max(40 * cost(1_000), 0.5)


def test_the_engines_line_tells_its_own_settings() -> None:
    arguments = Arguments()
    arguments.config(
        "Initializing a V1 LLM engine (v0.32.0) with config: model='/m/a', speculative_config=SpeculativeConfig("
        "method='draft_model', model='/m/d', quantization='fp8', dtype=torch.half), dtype=torch.bfloat16, "
        "max_seq_len=4096, quantization=None, device_config=cpu, compilation_config={'mode': 0, 'port': 5}"
    )
    assert arguments.get("model") == "/m/a" and arguments.get("dtype") == "torch.bfloat16"
    assert arguments.get("quantization") is None and arguments.get("max_model_len") == 4096
    assert arguments.get("platform") == "cpu" and arguments.get("port") is None


def test_json_and_dotted_flags_of_a_command_are_read() -> None:
    arguments = Arguments()
    arguments.command(
        'vllm serve m --speculative-config \'{"method": "mtp", "num_speculative_tokens": 3}\' --port 8000 '
        "--compilation-config.pass_config.fuse_x=true -cc.mode 3 -tp 2 -ep -dp=4 --no-x"
    )
    assert arguments.get("speculative_config") == {"method": "mtp", "num_speculative_tokens": 3}
    assert arguments.get("compilation_config") == {"pass_config": {"fuse_x": True}, "mode": 3}
    assert [arguments.get(f"{kind}_parallel_size") for kind in ("tensor", "data")] == [2, 4]
    assert arguments.get("enable_expert_parallel") is True
    assert arguments.number("port") == 8000 and not arguments.chosen("method")
