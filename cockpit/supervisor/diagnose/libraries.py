"""Libraries of vLLM's environment in versions that this vLLM was not made with."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import do, say, without

_OWN = (
    r"(?:Model|Vllm|Cache|Parallel|Scheduler|Speculative|Compilation|Device|Load|Pooler|Kernel|Attention|Engine"
    r"|\w*LoRA|\w*Quant\w*|\w*Tensors|\w*Marlin|Fp8|AWQ|GPTQ|ModelOpt\w*|Mxfp\d|INC|\w*Outputs|\w*Transfer)Config\b"
)
"""Configurations of vLLM itself."""
_ANEW = (
    "Install vLLM anew into an environment of its own, so that it gets the transformers that it was made with "
    "(`pip check` names what does not fit)."
)

_LAST_BEFORE_5 = 12
"""Minor version of the last vLLM that asks transformers for what 5 does not have (vllm-project/vllm#29686)."""


def _older(seen: Evidence) -> list[Fix]:
    version = re.match(r"0\.(\d+)", seen.boot.facts.vllm_version or "")
    old = version is not None and int(version[1]) <= _LAST_BEFORE_5
    what = "`uv pip install 'transformers<5'`" if old else "the one that was current when this vLLM came out"
    return [Fix(text=f"Install an older transformers into vLLM's environment: {what}."), Fix(text="Or upgrade vLLM.")]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="transformers-too-new",
        patterns=(
            r"has no attribute '?all_special_tokens_extended",
            r"AmbiguousGlobalPerLayerAttributeError",
            r"module 'transformers' has no attribute 'AutoModelForVision2Seq'",
            r"cannot import name '(?:LogitsWarper|TRANSFORMERS_CACHE|HybridCache|SlidingWindowCache"
            r"|AutoModelForVision2Seq|is_torch_fx_available|is_flash_attn_greater_or_equal_2_10|is_torch_greater_or_equal_than_\d_\d+"
            r"|is_tf_available|FLAX_\w+|TF_\w+)' from 'transformers",
        ),
        versions="any",
        explain=say("The transformers in vLLM's environment is newer than this vLLM can work with."),
        fixes=_older,
    ),
    Symptom(
        id="transformers-too-new",
        patterns=(r"^KeyError: 'default'",),
        frames=r"^modeling_\w+\.py:",
        versions="any",
        explain=say(
            "The model brings code of its own that was written for transformers 4: version 5 has no rope type "
            "default."
        ),
        fixes=do(
            without("trust_remote_code", " where vLLM has a class of its own for the model"),
            "Or use a vLLM with transformers 4, or a release of the model whose code is for 5.",
        ),
    ),
    Symptom(
        id="transformers-mismatch",
        patterns=(
            rf"^AttributeError: '(?!{_OWN})(?P<class>\w+Config)' object has no attribute "
            r"'(?P<name>num_attention_heads|num_key_value_heads|num_hidden_layers|hidden_size|vocab_size|head_dim"
            r"|max_position_embeddings|intermediate_size|rms_norm_eps)'",
        ),
        versions="any",
        explain=say(
            "This vLLM does not know the model's configuration: it looks for {name} at the top of {class}, which "
            "keeps it elsewhere (in its text part). The model is newer than this vLLM, or none that it serves.",
            "This vLLM does not know the model's configuration: the model is newer than this vLLM, or none that it "
            "serves.",
        ),
        fixes=do(
            "Upgrade vLLM, with the transformers that it asks for.",
            "If it is the newest, the model needs a class that it does not have: use the engine that its card names.",
            "If transformers was changed by hand: " + _ANEW[0].lower() + _ANEW[1:],
        ),
    ),
    Symptom(
        id="transformers-mismatch",
        patterns=(
            rf"^AttributeError: '(?!{_OWN})(?P<class>\w+Config)' object has no attribute '(?P<name>\w+)'",
            r"^AttributeError: (?P<class>\w*Tokenizer\w*) has no attribute (?P<name>\w+)",
        ),
        versions="any",
        explain=say(
            "vLLM looks for {name} in transformers' {class}, which does not have it: the two are of versions that do "
            "not go together, or the model is newer than this vLLM.",
            "vLLM and the transformers in its environment are of versions that do not go together.",
        ),
        fixes=do(_ANEW, "If the model is newer than this vLLM, upgrade vLLM, and transformers with it."),
    ),
    Symptom(
        id="transformers-mismatch",
        patterns=(r"(?P<class>\w+Processor(?:Fast)?)\.__init__\(\) got (?:multiple values|an unexpected keyword)",),
        versions="any",
        explain=say(
            "vLLM makes a {class} as its class does not take it: vLLM, transformers or the model's own code are of "
            "versions that do not go together.",
            "vLLM and the transformers in its environment are of versions that do not go together.",
        ),
        fixes=do(_ANEW, "If the model is newer than this vLLM, upgrade vLLM, and transformers with it."),
    ),
    Symptom(
        id="modelscope",
        patterns=(
            r"cannot import name '(?P<part>\w+)' from 'modelscope",
            r"snapshot_download\(\) got an unexpected keyword argument '(?P<part>\w+)'",
            r"module 'modelscope[\w.]*' has no attribute '(?P<part>\w+)'",
        ),
        versions="0.3 to 0.33",
        explain=say(
            "The modelscope in vLLM's environment is not of the version that this vLLM was made with: it "
            "has no {part}.",
            "The modelscope in vLLM's environment is not of the version that this vLLM was made with.",
        ),
        fixes=do(
            "Upgrade it: `uv pip install -U modelscope`; if it is newer than this vLLM, upgrade vLLM too.",
            "Or download the model by hand (`modelscope download --model REPO`), give its folder, and unset "
            "VLLM_USE_MODELSCOPE.",
        ),
    ),
    Symptom(
        id="bitsandbytes-library",
        patterns=(r"'NoneType' object has no attribute 'c(?:quantize|dequantize|gemm|get_|igemm|create)\w*'",),
        versions="any",
        explain=say("bitsandbytes has no library for this CUDA: it loaded without one, and fails where it needs it."),
        fixes=do(
            "Install the bitsandbytes that this vLLM asks for (`uv pip install -U bitsandbytes`); `python -m "
            "bitsandbytes` says what it finds.",
            "Or use the model in another 4-bit format (AutoRound, AWQ, GPTQ).",
        ),
    ),
    Symptom(
        id="sound-library",
        patterns=(r"sndfile library not found", r"cannot load library '[^'\n]*libsndfile"),
        versions="any",
        explain=say("soundfile, which reads sound, needs the system's libsndfile, and that is not there."),
        fixes=do("Install it: `apt install libsndfile1` (in the container's image, if it is one)."),
    ),
    Symptom(
        id="package-versions",
        patterns=(r"type object '(?P<name>\w+)' has no attribute '(?P<part>\w+)'",),
        frames=r"xgrammar|outlines|guidance|grammar|guided",
        versions="0.6 to 0.33",
        explain=say(
            "The library for structured output (xgrammar, outlines, llguidance) is not of the version that this vLLM "
            "was made with: {name} has no {part}.",
            "The library for structured output is not of the version that this vLLM was made with.",
        ),
        fixes=do(
            "Install vLLM anew into an environment of its own, so that it gets the xgrammar that it asks for (`pip "
            "check` names what does not fit).",
        ),
    ),
    Symptom(
        id="package-versions",
        patterns=(
            r"Failed to import (?P<name>transformers\.\S+) because of the following error[^\n]*\n"
            r"(?:Failed to import[^\n]*\n)*"
            r"(?P<why>[^\n]{1,200})",
            r"Could not import module '(?P<name>\w+)'\. Are this object's requirements defined correctly",
        ),
        versions="any",
        explain=say(
            "transformers cannot import its own part {name}: {why}. A package beside it is of a version that it does "
            "not go with.",
            "transformers cannot import a part of itself: a package beside it does not go with it.",
        ),
        fixes=do(
            _ANEW, "Or upgrade the package that the exception before this one names (torchvision, pydantic, peft, …)."
        ),
    ),
    Symptom(
        id="torchcodec",
        patterns=(r"Could not load libtorchcodec", r"libtorchcodec_core\d"),
        versions="0.25 to 0.33",
        explain=say(
            "torchcodec, which decodes videos, cannot be loaded: the system has no FFmpeg, or it is a build for "
            "another torch or CUDA."
        ),
        fixes=do(
            "Install FFmpeg (`apt install ffmpeg`), and the torchcodec that goes with torch and its CUDA.",
            "Or uninstall it if no videos are sent (`uv pip uninstall torchcodec`): most releases start without it.",
        ),
    ),
)
