"""Overlays inside a real vLLM: the modules that they patch, the one line when they must not, and a boot."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from cockpit.launch.overlay import FOLDER
from cockpit.paths import shipped
from cockpit.rig.types import Engine

pytestmark = pytest.mark.live
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "int8" / "embeddings.py"
TINY = shipped("slugs") / "cpu" / "tiny-qwen3"
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
SWITCH = {"VLLM_MARLIN_INPUT_DTYPE": "int8", "COCKPIT_QUANTIZED_EMBEDDING": "1"}


def environment(overlays: Path = FOLDER, **more: str) -> dict[str, str]:
    names = ("autoround_int8", "quantized_embedding", "common")
    path = os.pathsep.join(str(overlays / name) for name in names)
    return {**os.environ, **QUIET, **SWITCH, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}


def python(engine: Engine, code: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run code in the engine's own Python with both overlays at hand."""
    return subprocess.run(
        [engine.python, "-c", code],
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


FOLDING = """
import torch
from cockpit_int8_fold import fold
torch.manual_seed(1)
codes = torch.randint(0, 16, (256, 24))
scales = torch.randn(4, 24)
words = sum(codes.view(32, 8, 24)[:, at] << (4 * at) for at in range(8))
words = torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
def unpack(words):
    return torch.stack([(words >> (4 * at)) & 15 for at in range(8)], 1).view(256, 24)
def wide(groups):
    return groups.repeat_interleave(64, 0)
stock = (codes - 8) * wide(scales)
new, positive, zeros, folded, clamped = fold(words, scales, True)
assert (positive >= 0).all() and folded == int((scales < 0).sum()) and clamped == 0
assert torch.equal((unpack(new) - wide(zeros)) * wide(positive), stock)
new, positive, zeros, _, clamped = fold(words, scales, False)
lost = (codes == 0) & (wide(scales) < 0)
assert zeros is None and clamped == int(lost.sum()) > 0
off = (unpack(new) - 8) * wide(positive) - stock
assert torch.equal(off != 0, lost) and torch.allclose(off[lost], -wide(positive)[lost])
print("folded")
"""


def test_the_fold_on_tensors_is_exact_with_zero_points(engine: Engine) -> None:
    done = python(engine, FOLDING)
    assert done.stdout == "folded\n", done.stderr[-2000:]


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ("int8_kernel_check.py", "few tokens"),
        ("int8_compile_check.py", "compiled"),
        ("int8_operator_check.py", "one operator"),
    ],
)
def test_few_tokens_take_a_kernel_of_their_own(engine: Engine, script: str, word: str) -> None:
    """The kernel interpreted and compiled, and layers as one operator: what of it can be run without a GPU."""
    here = Path(__file__).parent
    path = os.pathsep.join([environment()["PYTHONPATH"], str(here)])
    done = python(engine, (here / script).read_text(encoding="utf-8"), PYTHONPATH=path)
    assert done.stdout.endswith(f"{word}\n"), done.stderr[-2000:]


PATCHING = """
import sys
import cockpit_autoround_int8 as overlay
overlay.register()
assert not any(name.startswith("vllm.model_executor.layers.quantization.inc") for name in sys.modules)
from vllm import envs
assert envs.compile_factors()["COCKPIT_OVERLAY"] == "autoround-int8 2 exact own"
import vllm.model_executor.kernels.linear.mixed_precision.marlin as marlin
import vllm.model_executor.layers.quantization.auto_gptq as gptq
import vllm.model_executor.layers.quantization.inc.schemes.inc_wna16_linear as linear
import vllm.model_executor.layers.quantization.inc.schemes.inc_wna16_scheme as scheme
import vllm.model_executor.layers.quantization.utils.marlin_utils as utils
import vllm.model_executor.model_loader.base_loader as loader
for function in (
    linear.INCWNA16LinearScheme._build_gptq_method, gptq.AutoGPTQLinearMethod.create_weights,
    marlin.MarlinLinearKernel.process_weights_after_loading, loader.BaseModelLoader.load_model,
):
    assert function.__module__.startswith("vllm") and function.__wrapped__.__code__ is not function.__code__
stock, ours = utils.apply_gptq_marlin_linear, marlin.apply_gptq_marlin_linear
assert stock is not ours and stock.__code__.co_names != () and "AssertionError" not in str(ours.__code__.co_consts)
import torch
from types import SimpleNamespace as Space
from vllm.scalar_type import scalar_types
packed = {}
def repack(x, **k):
    packed["is_a_8bit"] = k["is_a_8bit"]
    return x
marlin.ops.gptq_marlin_repack = repack
from vllm.model_executor.parameter import GroupQuantScaleParameter, PackedvLLMParameter
def load(*_): pass
class Layer(torch.nn.Module): pass
layer = Layer()
def plain(cls, data, **k):
    made = torch.nn.Parameter.__new__(cls, data, requires_grad=False)
    for name, value in k.items(): setattr(made, "_" + name, value)
    return made
k, n, g = 256, 128, 64
words = torch.randint(-2**31, 2**31 - 1, (k // 8, n), dtype=torch.int32)
scales = torch.randn(k // g, n).bfloat16()
dims = {"input_dim": 0, "output_dim": 1}
tiles = {"marlin_tile_size": None, "bitblas_tile_size": None}
layer.qweight = plain(PackedvLLMParameter, words.clone(), packed_dim=0, packed_factor=8, **dims, **tiles)
layer.scales = plain(GroupQuantScaleParameter, scales.clone(), **dims)
kernel = object.__new__(marlin.MarlinLinearKernel)
kernel.config = Space(
    act_type=torch.int8, weight_type=scalar_types.uint4b8, partition_weight_shape=(k, n), full_weight_shape=(k, n),
    group_size=g, zero_points=False, has_g_idx=False,
)
kernel.w_q_name, kernel.w_s_name, kernel.w_zp_name, kernel.w_gidx_name = "qweight", "scales", "qzeros", None
kernel.cockpit_int8 = True
marlin.MarlinLinearKernel.process_weights_after_loading(kernel, layer)
assert packed["is_a_8bit"] and kernel.config.weight_type == scalar_types.uint4
assert layer.qzeros.shape == (k // g, n // 8) and layer.qzeros.dtype == torch.int32
zeros = torch.where(scales < 0, 7, 8).to(torch.int32)
perm, _ = utils.get_scale_perms()
order = zeros.reshape(-1, len(perm))[:, perm].reshape(-1, n)
shown = torch.stack([(layer.qzeros >> (4 * at)) & 15 for at in range(8)], 2).reshape(-1, n)
assert torch.equal(shown, order)
rows = (scales < 0).repeat_interleave(g // 8, 0)
assert torch.equal(layer.qweight, torch.where(rows, ~words, words))
assert (layer.scales.view(torch.int16) >= 0).all()
print(overlay.counts.line())
"""


def test_the_real_modules_are_patched_when_they_are_imported_and_a_layer_gets_its_zero_points(engine: Engine) -> None:
    done = python(engine, PATCHING)
    line = done.stdout.splitlines()[-1] if done.stdout else ""
    assert line.startswith("1 layers switched to int8 activations, "), done.stderr[-3000:]
    assert line.endswith("of 512 groups folded, 0 codes clamped")


REFUSED = {
    "asymmetric weights": "config.sym = False; INCWNA16LinearScheme(config)",
    "8-bit weights": "config.bits = 8; INCWNA16LinearScheme(config)",
    "packed as AWQ": "config.is_gptq, config.is_awq = False, True; INCWNA16LinearScheme(config)",
    "mixture of experts": "INCWna16Scheme().get_moe_method(None, None, '', config)",
}
"""The reason that is given, and what leads to it."""
REFUSING = """
import json, os, sys, traceback
from pathlib import Path
import cockpit_autoround_int8 as overlay
overlay.register()
from types import SimpleNamespace as Space
from vllm.model_executor.layers.quantization.inc.schemes.inc_wna16_linear import INCWNA16LinearScheme
from vllm.model_executor.layers.quantization.inc.schemes.inc_wna16_scheme import INCWna16Scheme
config = Space(bits=4, sym=True, group_size=128, is_gptq=True, is_awq=False, backend="auto")
folder, codes = Path(os.environ["FOLDER"]), {}
for reason, act in json.loads(os.environ["ACTS"]).items():
    child = os.fork()
    if child == 0:
        stream = os.open(folder / reason, os.O_CREAT | os.O_WRONLY)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        try:
            exec(act)
            print("went on", flush=True)
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(0)
    codes[reason] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps(codes))
"""
"""vLLM is imported once, and each reason ends a process of its own."""


@pytest.fixture(scope="module")
def refusals(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    folder = tmp_path_factory.mktemp("refusals")
    done = python(engine, REFUSING, FOLDER=str(folder), ACTS=json.dumps(REFUSED))
    assert done.returncode == 0, done.stderr[-3000:]
    codes = json.loads(done.stdout.splitlines()[-1])
    return {reason: (codes[reason], (folder / reason).read_text()) for reason in REFUSED}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_int8_would_corrupt_ends_the_process_with_its_true_reason(
    reason: str, refusals: dict[str, tuple[int, str]]
) -> None:
    code, said = refusals[reason]
    (line,) = [line for line in said.splitlines() if "cockpit overlay" in line]
    assert line.startswith("cockpit overlay autoround-int8: refused: ") and reason in line
    assert code == 1 and "Traceback" not in said and "went on" not in said


def test_without_its_switch_an_overlay_leaves_vllm_alone(engine: Engine) -> None:
    code = (
        "import sys, cockpit_autoround_int8 as a, cockpit_quantized_embedding as e\n"
        "before = list(sys.meta_path)\na.register(); e.register()\n"
        "assert sys.meta_path == before and 'vllm' not in sys.modules\nprint('alone')"
    )
    done = python(engine, code, VLLM_MARLIN_INPUT_DTYPE="", COCKPIT_QUANTIZED_EMBEDDING="")
    assert done.stdout == "alone\n", done.stderr[-2000:]


def test_a_packed_embedding_gives_the_logits_of_the_same_one_unpacked(engine: Engine, tmp_path: Path) -> None:
    argv = [sys.executable, str(SCRIPT), str(tmp_path), "--python", engine.python, "--text-only", "--stand-ins"]
    clean = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(argv, env=clean | QUIET, capture_output=True, text=True, timeout=1200, check=False)
    assert "the embedding of Qwen3_5Model is built with its 8-bit weights" in done.stdout, done.stdout
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "128 positions, 0 lost, max difference 0.0")


def checkpoint(folder: Path, **changes: Any) -> Path:
    """A config and a tokenizer of an AutoRound W4 model, for random weights."""
    shutil.copytree(TINY, folder)
    config = json.loads((folder / "config.json").read_text())
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2}
    quantization = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True, "data_type": "int"}
    quantization |= {"packing_format": "auto_round:auto_gptq", "iters": 1, "autoround_version": "0.12.3", **changes}
    config |= sizes | {"head_dim": 64, "quantization_config": quantization}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def boot(engine: Engine, model: Path, log: Path, **more: str) -> int | None:
    """Start the server, wait until it answers or ends, stop it; its exit code when it ended by itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [engine.path, "serve", str(model), "--load-format", "dummy", "--enforce-eager", "--max-model-len", "256"]
    argv += ["--host", "127.0.0.1", "--port", str(port)]
    overlays = Path(more.pop("overlays", str(FOLDER)))
    with log.open("wb") as stream:
        process = subprocess.Popen(
            argv, env=environment(overlays, **more), stdout=stream, stderr=stream, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 1200
        while time.monotonic() < deadline:
            code = process.poll()
            if code is not None:
                return code
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                    return None
            except OSError:
                time.sleep(0.5)
        pytest.fail(f"no answer within 1200 s: {log.read_text()[-2000:]}")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(600)


def test_a_boot_says_once_a_rank_what_was_switched(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    assert boot(engine, checkpoint(tmp_path / "model"), log, VLLM_PLUGINS="cockpit_autoround_int8,other") is None
    lines = [line for line in log.read_text().splitlines() if "cockpit overlay" in line]
    (line,) = lines
    said = "autoround-int8 rank 0: 0 layers switched to int8 activations, 0 of 0 groups folded, 0 codes clamped"
    assert f"cockpit overlay {said}; 8 kept at 16 bits: CPUWNA16LinearKernel does not read the switch" in line


def test_code_that_moved_ends_the_boot_with_one_line(engine: Engine, tmp_path: Path) -> None:
    overlays = tmp_path / "overlays"
    shutil.copytree(FOLDER, overlays)
    file = overlays / "autoround_int8" / "anchors.json"
    anchors = json.loads(file.read_text())
    for functions in anchors["versions"].values():
        functions["envs.py::compile_factors"][1] = "0" * 16
    file.write_text(json.dumps(anchors))
    log = tmp_path / "serve.log"
    assert boot(engine, TINY, log, overlays=str(overlays)) == 1
    text = log.read_text()
    (line,) = [line for line in text.splitlines() if "cockpit overlay" in line]
    assert "autoround-int8: refused: compile_factors of this vLLM 0.32.0 is not the code it was made for" in line
    assert "Traceback" not in text
