"""Adapters that a server does not find, take or know."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import added, do, say, without


def _unsupported(seen: Evidence) -> str:
    if "model" in seen.groups:
        return f"This vLLM's class {seen.groups['model']} takes no LoRA adapters."
    if "layer" in seen.groups:
        return f"This vLLM cannot put adapters on a {seen.groups['layer']} of this quantization."
    if "tensor" in seen.groups:
        return f"The adapter has a tensor that this vLLM cannot apply: {seen.groups['tensor']}."
    return "The adapter changes parts of the model that this vLLM cannot apply it to."


def _unsupported_fixes(seen: Evidence) -> list[Fix]:
    merge = Fix(text="Merge the adapter into the model (peft: merge_and_unload), and serve the merged checkpoint.")
    if "model" in seen.groups:
        return [without("enable_lora"), merge]
    return [merge, Fix(text="Or train it for attention and MLP projections only, without modules_to_save or DoRA.")]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="lora-rank",
        patterns=(r"LoRA rank (?P<rank>\d+) is greater than max_lora_rank (?P<most>\d+)",),
        versions="0.3 to 0.33",
        explain=say(
            "The adapter has rank {rank}, and the server takes up to {most}.",
            "The adapter's rank is above what the server takes.",
        ),
        fixes=lambda seen: [added(f"max_lora_rank={seen.groups.get('rank', 'N')}")],
    ),
    Symptom(
        id="lora-missing",
        patterns=(
            r"No adapter found for (?P<path>\S+)",
            r"[Nn]o such file or directory: ?'(?P<path>[^'\n]*?)/?adapter_(?:config|model)\.\w+'",
            r"Loading lora (?P<path>\S+) failed",
        ),
        versions="0.3 to 0.33",
        explain=say("The LoRA adapter {path} is not there or cannot be read.", "A LoRA adapter cannot be read."),
        fixes=do("Correct the path in --lora-modules; the folder holds adapter_config.json and its safetensors."),
    ),
    Symptom(
        id="lora-unsupported",
        patterns=(
            r"(?P<model>\w+) does not support LoRA(?: yet|, but LoRA is enabled)",
            r"Model (?:<class ')?(?P<model>[\w.]+)(?:'>)? is not supported for LoRA",
            r"(?P<tensor>\S+) is unsupported LoRA weight",
            r"expected target modules in .{1,400}but received \[?(?P<tensor>[^\n\]]{1,160})",
            r"vLLM only supports modules_to_save being",
            r"vLLM does not (?:yet )?support (?:DoRA|LoRA bias)",
            r"classification head \w+, but token_classify only supports LoRA",
            r"contains fused 3D MoE weights",
            r"does not support fused MoE LoRA",
            r"Unsupported base layer: (?P<layer>\w+)",
        ),
        versions="0.3 to 0.33",
        explain=_unsupported,
        fixes=_unsupported_fixes,
    ),
    Symptom(
        id="lora-unsupported",
        patterns=(
            r"embedding LoRA size\((?P<has>\d+)\) must be consistent with the base model's vocabulary "
            r"size\((?P<wants>\d+)\)",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "The adapter was trained with {has} tokens, and the model that is served has {wants}.",
            "The adapter was trained with another vocabulary than the model that is served has.",
        ),
        fixes=do(
            "Serve the base model that adapter_config.json names (base_model_name_or_path), of the same release.",
            "If the adapter adds tokens, merge it into the model (peft: merge_and_unload), and serve that.",
        ),
    ),
    Symptom(
        id="lora-unsupported",
        patterns=(
            r"PEFTHelper\.__init__\(\) missing \d+ required positional arguments?: (?P<missing>[^\n]{1,120})",
            r"Missing required configuration fields: (?P<missing>[^\n]{1,120})",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "adapter_config.json is not that of a LoRA adapter: it lacks {missing}.",
            "adapter_config.json is not that of a LoRA adapter.",
        ),
        fixes=do(
            "Name the folder that training saved the LoRA in: its adapter_config.json has r, lora_alpha and "
            "target_modules.",
            "Other kinds of adapters (prompt tuning, IA3) must be merged into the model first.",
        ),
    ),
    Symptom(
        id="lora-modules",
        patterns=(r"argument --lora-modules: Invalid fields: \[?'?(?P<given>[^'\]\n]{1,120})",),
        versions="0.6 to 0.33",
        explain=say("--lora-modules has {given}, which names no adapter.", "--lora-modules names no adapter."),
        fixes=do(
            "Give each as NAME=PATH, with a space between them; NAME is what requests ask for as the model.",
            'Or as JSON in single quotes: \'{{"name": "sql", "path": "/adapters/sql"}}\'.',
        ),
    ),
    Symptom(
        id="lora-unsupported",
        patterns=(r"^AssertionError",),
        frames=r"^(?:lora_(?:shrink|expand)\w*|fused_moe_lora\w*|punica_\w+)\.py:",
        versions="0.8 to 0.33",
        explain=say(
            "The adapter's tensors do not have the shapes that this vLLM applies: trained on another base model, or "
            "on parts such as the vision tower."
        ),
        fixes=_unsupported_fixes,
    ),
    Symptom(
        id="lora-off",
        patterns=(r"LoRA is not enabled", r"Got lora_request .{0,300} but LoRA is not enabled"),
        versions="0.3 to 0.33",
        explain=say("An adapter is asked for, and the server was started without LoRA."),
        fixes=do(added("enable_lora"), "Name each adapter: --lora-modules NAME=PATH."),
    ),
)
