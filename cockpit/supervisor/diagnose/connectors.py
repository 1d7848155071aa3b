"""What moves KV or weights off the GPU, and what does not go with it."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import added, do, joined, say, without

_MANAGER = "disable_hybrid_kv_cache_manager"
_NO_CONNECTOR = do(
    without("kv_transfer_config", ": the server does without its connector"),
    without("kv_offloading_size", ": the server does without the offloading"),
)


def _manager(seen: Evidence) -> str:
    text = seen.incident.text
    if "explicitly enabled" in text:
        return "The command asks for the hybrid KV cache manager, which does not go with its other flags."
    if "only works without" in text:
        return "This KV connector does not go with the hybrid KV cache manager."
    return (
        "The model's layers keep KV of several kinds, which only the hybrid KV cache manager handles, and the "
        "command or its KV connector turns that manager off."
    )


def _manager_fixes(seen: Evidence) -> list[Fix]:
    text = seen.incident.text
    if "explicitly enabled" in text:
        return [Fix(text="Leave --no-disable-hybrid-kv-cache-manager out.", drops=_MANAGER), *_NO_CONNECTOR(seen)]
    if "only works without" in text:
        return [added(_MANAGER), *_NO_CONNECTOR(seen)]
    keep = Fix(text="Or keep the manager on, if the connector can: --no-disable-hybrid-kv-cache-manager.")
    return [without(_MANAGER), *_NO_CONNECTOR(seen), keep]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="hybrid-kv-manager",
        patterns=(
            r"Hybrid KV cache manager is disabled but failed to convert",
            r"Hybrid KV cache manager was explicitly enabled but is not",
            r"only works without hybrid kv cache manager",
            r"requires the hybrid KV cache manager",
        ),
        versions="0.11 to 0.33",
        explain=_manager,
        fixes=_manager_fixes,
    ),
    Symptom(
        id="kv-connector-failed",
        patterns=(r"External KV connector is not verified",),
        versions="0.11 to 0.33",
        explain=say("KV that was moved off the GPU came back for a hybrid model, which this vLLM does not handle."),
        fixes=_NO_CONNECTOR,
    ),
    Symptom(
        id="kv-connector-missing",
        patterns=(r"(?P<name>NIXL|Mooncake|MoRIIO|LMCache) is not available",),
        versions="0.10 to 0.33",
        explain=say(
            "The KV connector needs {name}, which vLLM's environment does not have.",
            "The KV connector needs a package that vLLM's environment does not have.",
        ),
        fixes=joined(
            do("Install it into the environment of that vLLM (nixl, mooncake-transfer-engine, lmcache)."),
            _NO_CONNECTOR,
        ),
    ),
    Symptom(
        id="cpu-offload",
        patterns=(
            r"when CPU weight offloading is enabled",
            r"cpu[-_]offload[-_]gb[^\n]{0,80}(?:not supported|not compatible|must be 0)",
        ),
        versions="0.9 to 0.33",
        explain=say("Weights that --cpu-offload-gb keeps in RAM do not go with this model or its other flags."),
        fixes=do(without("cpu_offload_gb"), "Or use a smaller checkpoint, which needs no offloading."),
    ),
)
