"""What each toggle does to the command and the environment."""

from __future__ import annotations

from typing import Any

import pytest
from recipes import HOPPER, RTX, W4, entry, facts, flags, plan, rig

from cockpit.catalog.slug import Speculative, Weights
from cockpit.launch.plan import effective_values, parse_settings
from cockpit.launch.toggles import BY_ID, TOGGLES
from cockpit.rules.int8 import SWITCH

CPU = entry(Weights(format="bf16", repo="o/n"), name="cpu/a", platform="cpu")


def test_ids_and_keys_are_unique() -> None:
    assert len({toggle.id for toggle in TOGGLES}) == len({toggle.key for toggle in TOGGLES}) == len(TOGGLES)


@pytest.mark.parametrize("toggle", TOGGLES, ids=lambda toggle: toggle.id)
def test_every_value_has_a_line_for_the_card(toggle: Any) -> None:
    value = toggle.default(entry().slug)
    assert toggle.effect(value)
    assert toggle.effect(toggle.kind.step(value, 1))


@pytest.mark.parametrize(
    ("setting", "flag", "value"),
    [
        ("kv_cache_dtype=fp8_e4m3", "kv-cache-dtype", "fp8_e4m3"),
        ("max_model_len=256K", "max-model-len", "262144"),
        ("gpu_memory_utilization=0.9", "gpu-memory-utilization", "0.9"),
        ("max_num_seqs=4", "max-num-seqs", "4"),
        ("prefix_caching=on", "enable-prefix-caching", True),
        ("prefix_caching=off", "no-enable-prefix-caching", True),
        ("vision=off", "language-model-only", True),
        ("enforce_eager=on", "enforce-eager", True),
        ("tensor_parallel=2", "tensor-parallel-size", "2"),
        ("host=0.0.0.0", "host", "0.0.0.0"),
        ("port=9000", "port", "9000"),
        ("speculative_tokens=3", "speculative-config", {"method": "mtp", "num_speculative_tokens": 3}),
    ],
)
def test_a_setting_becomes_its_flag(setting: str, flag: str, value: Any) -> None:
    assert flags(plan(setting))[flag] == value


@pytest.mark.parametrize(
    ("setting", "flag"),
    [
        ("kv_cache_dtype=auto", "kv-cache-dtype"),
        ("gpu_memory_utilization=default", "gpu-memory-utilization"),
        ("max_num_seqs=default", "max-num-seqs"),
        ("prefix_caching=default", "enable-prefix-caching"),
        ("prefix_caching=default", "no-enable-prefix-caching"),
        ("vision=on", "language-model-only"),
        ("enforce_eager=off", "enforce-eager"),
        ("speculative_tokens=0", "speculative-config"),
    ],
)
def test_a_default_leaves_its_flag_out(setting: str, flag: str) -> None:
    loud = entry(
        kv_cache_dtype="fp8_e4m3",
        gpu_memory_utilization=0.9,
        max_num_seqs=2,
        prefix_caching="on",
        enforce_eager="on",
        speculative=Speculative(method="mtp", tokens=3),
    )
    assert flag not in flags(plan(setting, of=loud))


def test_a_named_draft_model_is_kept_when_its_tokens_change() -> None:
    eagle = entry(speculative=Speculative(method="eagle3", tokens=3, model="o/draft"))
    assert flags(plan("speculative_tokens=5", of=eagle))["speculative-config"] == {
        "method": "eagle3",
        "model": "o/draft",
        "num_speculative_tokens": 5,
    }


def test_int8_on_sets_the_switch() -> None:
    assert plan("int8=on").env[SWITCH] == "int8"


@pytest.mark.parametrize("inherited", ["int8", "fp8", ""])
def test_int8_off_removes_the_switch_from_a_caller_that_has_it(inherited: str) -> None:
    planned = plan("int8=off", with_facts=facts({SWITCH: inherited}))
    assert SWITCH in planned.env
    assert planned.env[SWITCH] is None


def test_int8_off_says_nothing_when_the_caller_has_no_switch() -> None:
    assert SWITCH not in plan("int8=off").env


def test_int8_on_says_nothing_when_the_caller_has_it_already() -> None:
    assert SWITCH not in plan("int8=on", with_facts=facts({SWITCH: "int8"})).env


def test_a_checkpoint_that_may_not_use_int8_loses_an_inherited_switch() -> None:
    planned = plan("int8=on", of=entry(Weights(format="fp8", repo="o/n")), with_facts=facts({SWITCH: "int8"}))
    assert planned.env[SWITCH] is None


def test_int8_that_the_slug_turns_on_is_on() -> None:
    planned = plan(of=entry(int8="on"))
    assert (planned.values["int8"], planned.env[SWITCH]) == ("on", "int8")


def test_int8_that_the_slug_turns_on_stays_off_on_hopper() -> None:
    planned = plan(of=entry(int8="on"), with_facts=facts({SWITCH: "int8"}, rig=HOPPER))
    assert (planned.values["int8"], planned.env[SWITCH]) == ("off", None)
    assert [finding.rule for finding in planned.findings] == ["int8-default-off"]


def test_int8_that_the_user_turns_on_on_hopper_is_done_so_that_force_can_pass_it() -> None:
    planned = plan("int8=on", with_facts=facts(rig=HOPPER))
    assert (planned.values["int8"], planned.env[SWITCH]) == ("on", "int8")
    assert planned.findings[0].rule == "toggle-int8"
    assert planned.findings[0].level == "rig"


@pytest.mark.parametrize("setting", ["vision=off", "speculative_tokens=3"])
def test_a_blocked_toggle_does_nothing_to_the_command(setting: str) -> None:
    plain = entry(Weights(format="bf16", repo="o/n"))
    assert plan(setting, of=plain).argv == plan(of=plain).argv


def test_gpus_are_named_by_bus_order() -> None:
    planned = plan("gpus=2,3")
    assert planned.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert planned.env["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert planned.gpus == (2, 3)


@pytest.mark.parametrize(
    ("settings", "gpus", "parallel"),
    [
        ([], (0, 1), 2),
        (["gpus=3"], (3,), 1),
        (["gpus=0,1,2,3"], (0, 1, 2, 3), 4),
        (["tensor_parallel=4"], (0, 1, 2, 3), 4),
        (["tensor_parallel=1"], (0,), 1),
        (["gpus=1,2,3", "tensor_parallel=1"], (1, 2, 3), 1),
        (["gpus=0", "tensor_parallel=2"], (0,), 2),
    ],
)
def test_gpus_and_tensor_parallel_follow_each_other(
    settings: list[str], gpus: tuple[int, ...], parallel: int
) -> None:
    values = effective_values(entry(tensor_parallel=2).slug, parse_settings(settings), facts())
    assert (values["gpus"], values["tensor_parallel"]) == (gpus, parallel)


def test_the_cpu_build_gets_no_gpu_flags_and_no_gpu_environment() -> None:
    planned = plan(of=CPU, with_facts=facts(rig=RTX))
    assert set(flags(planned)) == {"served-model-name", "max-model-len", "host", "port"}
    assert planned.env == {}
    assert planned.gpus == ()


def test_consumer_cards_get_what_they_need() -> None:
    planned = plan(of=entry(tensor_parallel=2))
    assert planned.env == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_CUMEM_ENABLE": "0",
        "NCCL_P2P_DISABLE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    }
    assert flags(planned)["disable-custom-all-reduce"] is True


def test_one_card_needs_no_nccl_settings() -> None:
    planned = plan(of=entry(tensor_parallel=1))
    assert not [name for name in planned.env if name.startswith("NCCL")]
    assert "disable-custom-all-reduce" not in flags(planned)


@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA A100-SXM4-80GB", "NVIDIA B200"])
def test_data_centre_gpus_keep_their_peer_to_peer(name: str) -> None:
    planned = plan(of=entry(tensor_parallel=2), with_facts=facts(rig=rig(name, name)))
    assert not [variable for variable in planned.env if variable.startswith("NCCL")]
    assert "disable-custom-all-reduce" not in flags(planned)


def test_wsl_gets_no_expandable_segments() -> None:
    wsl = facts(rig=rig("NVIDIA GeForce RTX 3090", wsl=True))
    assert "PYTORCH_CUDA_ALLOC_CONF" not in plan(with_facts=wsl).env


@pytest.mark.parametrize("source", ["caller", "slug"])
def test_what_the_user_has_set_wins_over_the_rigs_defaults(source: str) -> None:
    own = {"NCCL_P2P_DISABLE": "0", "OMP_NUM_THREADS": "4", "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:512"}
    if source == "caller":
        planned = plan(of=entry(tensor_parallel=2), with_facts=facts(own))
        assert not set(own) & set(planned.env)
    else:
        planned = plan(of=entry(tensor_parallel=2, env=own))
        assert own.items() <= planned.env.items()


@pytest.mark.parametrize("wanted", [True, False])
def test_a_slug_that_decides_on_all_reduce_is_obeyed(wanted: bool) -> None:
    planned = plan(of=entry(tensor_parallel=2, flags={"disable-custom-all-reduce": wanted}))
    assert ("disable-custom-all-reduce" in flags(planned)) is wanted


def test_the_table_can_be_looked_up() -> None:
    assert BY_ID["int8"].key == "a"
    assert W4.mtp
