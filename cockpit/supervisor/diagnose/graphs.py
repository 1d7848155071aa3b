"""CUDA graphs that an attention backend or the draft does not allow in the mode that was asked for."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import do, joined, no_draft, no_graphs, say, without


def _modes(seen: Evidence) -> list[Fix]:
    asked = seen.groups.get("mode", "")
    plain = without("compilation_config", ": vLLM then takes a mode that the backend has")
    mode = '{"cudagraph_mode": "NONE"}' if asked == "PIECEWISE" else '{"cudagraph_mode": "PIECEWISE"}'
    return [plain, Fix(text=f"Ask for graphs around the attention only: --compilation-config '{mode}'.")]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="cudagraph-mode",
        patterns=(
            r"CUDAGraphMode\.(?P<mode>\w+) is not supported with (?P<backend>\w+?)(?:MetadataBuilder|Backend)? ",
            r"CUDAGraphMode\.(?P<mode>\w+) is not supported",
        ),
        versions="0.10 to 0.33",
        explain=say(
            "The attention backend {backend} cannot be captured in CUDA graphs as {mode} asks.",
            "The attention backend cannot be captured in CUDA graphs in the mode that was asked for.",
        ),
        fixes=joined(_modes, do(without("attention_backend", " and let vLLM choose")), no_draft, no_graphs),
    ),
    Symptom(
        id="cudagraph-sizes",
        patterns=(r"No valid cudagraph sizes after rounding to multiple of (?P<step>\d+)",),
        versions="0.13 to 0.33",
        explain=say(
            "No size of CUDA graph is a multiple of {step}, the draft's tokens and one more.",
            "No size of CUDA graph is a multiple of the draft's tokens and one more.",
        ),
        fixes=joined(
            do(
                without("max_cudagraph_capture_size", ", or raise it above that number"),
                without("cudagraph_capture_sizes"),
            ),
            no_draft,
            no_graphs,
        ),
    ),
)
