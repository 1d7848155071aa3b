"""What the probe reads out of a vllm package: small packages of our own, in the shapes that vLLM has had."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig_fakes import MAPS, MakeEngine, site_of

from cockpit.rig.engines import probe_engine
from cockpit.rig.probe_script import WNA16, Package, source_facts

QUANTIZATION = "model_executor/layers/quantization"
EMBEDDING = ("model_executor/models/qwen3_5.py", "model_executor/models/qwen3_5_mtp.py")
AUTOROUND = f"{QUANTIZATION}/inc/schemes/inc_wna16_linear.py"
MOE = f"{QUANTIZATION}/compressed_tensors/compressed_tensors_moe/compressed_tensors_moe_wna16.py"
MOE_MARLIN = MOE.replace(".py", "_marlin.py")
REGISTRY = "model_executor/models/registry.py"

STOCK_EMBEDDING = "class M:\n    def __init__(self):\n        self.e = VocabParallelEmbedding(self.vocab, size)\n"
QUANTIZED_EMBEDDING = "e = VocabParallelEmbedding(vocab, size, quant_config=config, prefix='e')\n"
METHODS = """
from typing import Literal
QuantizationMethods = Literal["awq", "inc", "humming", "odd", "shared"]
def get_quantization_config(name):
    from .awq import AwqConfig
    methods: dict[str, type] = {"awq": AwqConfig, "inc": INCConfig, "humming": HummingConfig, "odd": OddConfig,
                                "shared": SharedConfig, "later": later}
    return methods
""".replace("methods:", "method_to_config:")
CLASSES = '''
class AwqConfig(Base):
    @classmethod
    def get_min_capability(cls) -> int:
        """Turing."""
        return 75

class OddConfig(Base):
    @classmethod
    def get_min_capability(cls) -> int:
        return other() if cls else 75

class SharedConfig(AwqConfig):
    pass
'''
CONFIGS = "_CONFIG_REGISTRY: dict[str, type] = Lazy(chatglm='ChatGLMConfig', **{'odd-ocr': OddConfig})\n"
AUTO = {
    "__init__.py": "raise SystemExit('it is not imported')\n",
    "models/auto/configuration_auto.py": """
CONFIG_MAPPING_NAMES.update({"vlm": "VlmConfig", "no": 1})
CONFIG_MAPPING_NAMES = OrderedDict(**{"gpt-sw3": "GPT2Config"}, **CONFIG_MAPPING_NAMES)
OTHER = OrderedDict([("albert", "AlbertModel")])
""",
    "models/auto/auto_mappings.py": """
N = OrderedDict([('llama', 'LlamaConfig'), ('qwen3', 'Qwen3Config')])
PROCESSOR_MAPPING_NAMES = OrderedDict([('llava', 'LlavaProcessor')])
""",
    "models/auto/processing_auto.py": "MISSING_PROCESSOR_MAPPING_NAMES = OrderedDict([('vlm', 'VlmProcessor')])\n",
    "models/auto/tokenization_auto.py": """
TOKENIZER_MAPPING_NAMES = OrderedDict[str, str | None]([("llama", "LlamaTokenizer" if f() else None), ("gpt", None)])
MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS: set[str] = {"phi"}
OTHER = {"albert"}
""",
}
OWN = {
    "transformers_utils/config.py": CONFIGS,
    "transformers_utils/processors/__init__.py": "__all__ = ['OvisProcessor']\n_MORE = {'x': 'y'}\n",
    "tokenizers/registry.py": "_VLLM_TOKENIZERS = {'kimi_audio': ('kimi_audio', 'KimiTokenizer')}\n",
}
KERNEL = "class MarlinLinearKernel(K):\n    @classmethod\n    def get_min_capability(cls):\n        return 75\n"


def package(folder: Path, files: dict[str, str]) -> Path:
    for place, text in files.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text)
    return folder


def facts(folder: Path, files: dict[str, str]) -> dict[str, object]:
    return source_facts(Package(package(folder, files)))


def test_a_whole_engine_says_everything_that_the_rules_read(tmp_path: Path, make_engine: MakeEngine) -> None:
    command = make_engine(tmp_path / "v", {"vllm": "0.33.0", "torch": "2.14.0", "nvidia-cuda-runtime": "13.0.48"})
    files = {
        **dict.fromkeys(EMBEDDING, STOCK_EMBEDDING),
        AUTOROUND: "class S:\n    def build(self):\n        return Method(Config(bits=4))\n",
        MOE: "class M:\n    def __init__(self, q):\n        self.packed_factor = Fraction(32, q.num_bits)\n",
        REGISTRY: "_A = {'LlamaForCausalLM': 1}\n_VLLM_MODELS = {**_A, 'Qwen3_5MTP': ('m', 'M')}\n",
        f"{QUANTIZATION}/__init__.py": METHODS,
        f"{QUANTIZATION}/awq.py": CLASSES,
        f"{QUANTIZATION}/inc/inc.py": "class INCConfig(B):\n    def get_min_capability(cls):\n        return 60\n",
        "model_executor/kernels/linear/mixed_precision/marlin.py": KERNEL,
        "config/cache.py": "CacheDType = Literal['auto', 'fp8']\n",
        "tool_parsers/__init__.py": "_TOOL_PARSERS_TO_REGISTER = {'hermes': ('hermes_tool_parser', 'Hermes')}\n",
        "reasoning/__init__.py": "_REASONING_PARSERS_TO_REGISTER = {'qwen3': ('a', 'A'), 'glm45': ('b', 'B')}\n",
    }
    package(site_of(tmp_path / "v") / "vllm", {**files, **OWN})
    package(site_of(tmp_path / "v") / "transformers", AUTO)
    engine = probe_engine(command, "mine")
    assert engine.config_types == ("chatglm", "gpt-sw3", "llama", "odd-ocr", "qwen3", "vlm")
    assert engine.tokenizers == ("KimiTokenizer", "LlamaTokenizer", "gpt", "kimi_audio", "llama", "phi")
    assert engine.processors == ("LlavaProcessor", "OvisProcessor", "VlmProcessor", "llava", "vlm")
    assert engine.models == ("LlamaForCausalLM", "Qwen3_5MTP")
    assert engine.quantized_embedding is False
    assert engine.autoround_int8 is False
    assert engine.moe_packed_widths == engine.wna16_bits == (4, 6, 8)
    assert engine.quantization_methods == ("awq", "inc", "humming", "odd", "shared")
    assert engine.kv_cache_dtypes == ("auto", "fp8")
    assert (engine.tool_parsers, engine.reasoning_parsers) == (("hermes",), ("qwen3", "glm45"))
    assert engine.min_capabilities == {"awq": 75, "inc": 60, "shared": 75, "MarlinLinearKernel": 75}
    assert engine.cuda == (13, 0)
    assert isinstance(engine.python_headers, bool)


def test_what_a_package_does_not_have_is_unknown(tmp_path: Path, make_engine: MakeEngine) -> None:
    engine = probe_engine(make_engine(tmp_path / "v", maps=None), "mine")
    for name in ("models", "quantized_embedding", "autoround_int8", "moe_packed_widths", "quantization_methods"):
        assert getattr(engine, name) is None
    assert (engine.kv_cache_dtypes, engine.min_capabilities, engine.cuda) == (None, None, None)
    assert (engine.tool_parsers, engine.reasoning_parsers, engine.config_types) == (None, None, None)
    assert (engine.tokenizers, engine.processors) == (None, None)


def test_a_changed_source_file_is_read_again(tmp_path: Path, make_engine: MakeEngine) -> None:
    command = make_engine(tmp_path / "v")
    folder = package(site_of(tmp_path / "v") / "vllm", dict.fromkeys(EMBEDDING, STOCK_EMBEDDING))
    assert probe_engine(command, "mine").quantized_embedding is False
    package(folder, dict.fromkeys(EMBEDDING, QUANTIZED_EMBEDDING))
    assert probe_engine(command, "mine").quantized_embedding is True


def test_a_source_file_that_was_missing_is_noticed_when_it_comes(tmp_path: Path, make_engine: MakeEngine) -> None:
    command = make_engine(tmp_path / "v")
    assert probe_engine(command, "mine").kv_cache_dtypes is None
    package(site_of(tmp_path / "v") / "vllm", {"config/cache.py": "CacheDType = Literal['auto', 'fp8']\n"})
    assert probe_engine(command, "mine").kv_cache_dtypes == ("auto", "fp8")


@pytest.mark.parametrize(
    ("model", "draft", "expected"),
    [
        (STOCK_EMBEDDING, STOCK_EMBEDDING, False),
        (QUANTIZED_EMBEDDING, STOCK_EMBEDDING, False),
        (QUANTIZED_EMBEDDING, QUANTIZED_EMBEDDING, True),
        (QUANTIZED_EMBEDDING, "x = 1\n", None),
        (QUANTIZED_EMBEDDING, "def (", None),
    ],
)
def test_the_embedding_is_quantized_only_where_model_and_draft_both_say_so(
    tmp_path: Path, model: str, draft: str, expected: bool | None
) -> None:
    assert facts(tmp_path, dict(zip(EMBEDDING, (model, draft), strict=True)))["quantized_embedding"] is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("return Method(Config(4))\n", False),
        ("# input_dtype is not set\nreturn Method(Config(4))\n", False),
        ("m.input_dtype = get_marlin_input_dtype(prefix)\n", True),
        ("return Method(Config(4), input_dtype=d)\n", True),
    ],
)
def test_autoround_has_the_switch_where_its_scheme_hands_a_dtype_on(
    tmp_path: Path, text: str, expected: bool
) -> None:
    source = "def build(self, m, d, prefix):\n" + "".join(f"    {line}\n" for line in text.splitlines())
    assert facts(tmp_path, {AUTOROUND: source})["autoround_int8"] is expected


FRACTION = "self.packed_factor = Fraction(32, bits)\n"
DIVIDED = "self.packed_factor = 32 // bits\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({MOE: FRACTION}, [4, 6, 8]),
        ({MOE: DIVIDED}, [4, 8]),
        ({MOE: FRACTION, MOE_MARLIN: DIVIDED}, [4, 8]),
        ({MOE: "self.packed_factor = pack(bits)\n"}, None),
        ({MOE: "x = 1\n"}, None),
        ({}, None),
    ],
)
def test_experts_have_all_widths_once_none_of_their_schemes_divides(
    tmp_path: Path, files: dict[str, str], expected: list[int] | None
) -> None:
    assert facts(tmp_path, {WNA16: MAPS, **files})["moe_packed_widths"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_VLLM_MODELS = {'A': 1}\n", ["A"]),
        ("_X = {'B': 1, 'A': 2}\n_VLLM_MODELS = {**_X, **_X}\n", ["A", "B"]),
        ("_X = {'A': (1, 2)}\n_Y = {**{k: v for k, v in _X.items() if v}}\n_VLLM_MODELS = {**_Y}\n", ["A"]),
        ("_VLLM_MODELS = {**_MISSING}\n", None),
        ("_VLLM_MODELS = {**load()}\n", None),
        ("_VLLM_MODELS = {1: 2}\n", None),
        ("_VLLM_MODELS = {**_VLLM_MODELS}\n", None),
        ("_VLLM_MODELS = load()\n", None),
    ],
)
def test_architectures_are_the_keys_of_the_registry_or_unknown(
    tmp_path: Path, text: str, expected: list[str] | None
) -> None:
    assert facts(tmp_path, {REGISTRY: text})["models"] == expected


PIECES = st.sampled_from(
    [
        "_VLLM_MODELS",
        " = ",
        "{",
        "}",
        "**",
        "'A'",
        ": 1",
        "\n",
        "(",
        "[",
        "class C(",
        "):\n ",
        "Literal[",
        "\x00",
        "é",
    ]
)


@settings(max_examples=60, deadline=None)
@given(text=st.lists(PIECES, max_size=12).map("".join), bad=st.binary(max_size=20))
def test_no_source_file_makes_the_probe_fail(tmp_path_factory: pytest.TempPathFactory, text: str, bad: bytes) -> None:
    folder = tmp_path_factory.mktemp("vllm")
    package(folder, dict.fromkeys([REGISTRY, MOE, AUTOROUND, f"{QUANTIZATION}/__init__.py"], text))
    (folder / WNA16).parent.mkdir(parents=True)
    (folder / WNA16).write_bytes(bad)
    source_facts(Package(folder))
