"""Answers of servers that are no vLLM, or that stand before one; by mode and path."""

from __future__ import annotations

import json
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Page:
    """One answer."""

    status: int = 200
    body: bytes = b""
    kind: str = "text/plain; version=0.0.4"
    headers: dict[str, str] = field(default_factory=dict)


def _models(owner: str) -> Page:
    listed = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": owner}]}
    return Page(body=json.dumps(listed).encode(), kind="application/json")


_NOT_FOUND = Page(404, b'{"detail":"Not Found"}', "application/json")
_LOGIN = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Sign in</body></html>"
_LLAMACPP_OFF = (
    b'{"error":{"code":501,"message":"This server does not support metrics endpoint.","type":"not_supported_error"}}'
)
_TGI = {
    "model_id": "m",
    "max_concurrent_requests": 128,
    "max_total_tokens": 32768,
    "router": "text-generation-router",
}
_PROCESS = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.79598211946e+09\n"

PAGES: dict[str, dict[str, Page]] = {
    "sglang": {
        "/metrics": Page(body=f'{_PROCESS}sglang:prompt_tokens_total{{model_name="m"}} 8.128902e+06\n'.encode()),
        "/v1/models": _models("sglang"),
    },
    "no-log-stats": {
        "/metrics": Page(body=f'{_PROCESS}http_requests_total{{handler="/v1/completions"}} 3\n'.encode()),
        "/v1/models": _models("vllm"),
    },
    "html": {"/metrics": Page(body=_LOGIN, kind="text/html; charset=utf-8")},
    "json": {"/metrics": Page(body=b'[{"iter":1}]', kind="application/json"), "/v1/models": _models("tensorrt_llm")},
    "login": {"/metrics": Page(302, headers={"Location": "https://login.example/?next=%2Fmetrics"})},
    "https-only": {"/metrics": Page(308, headers={"Location": "https://127.0.0.1/metrics"})},
    "api-alone": {"/metrics": _NOT_FOUND, "/v1/models": _models("vllm")},
    "sglang-silent": {"/metrics": _NOT_FOUND, "/v1/models": _models("sglang")},
    "llamacpp-silent": {"/metrics": Page(501, _LLAMACPP_OFF, "application/json"), "/v1/models": _models("llamacpp")},
    "ollama": {"/metrics": _NOT_FOUND, "/v1/models": _models("someone"), "/": Page(body=b"Ollama is running")},
    "tgi-silent": {
        "/metrics": _NOT_FOUND,
        "/v1/models": _NOT_FOUND,
        "/info": Page(body=json.dumps(_TGI).encode(), kind="application/json"),
    },
    "no-metrics": {"/metrics": _NOT_FOUND, "/v1/models": _NOT_FOUND},
}
