"""The drivers of scripts/int8: what a variant's environment holds, what a result is called, a client that counts."""

from __future__ import annotations

import importlib
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cockpit.launch.overlay import FOLDER

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts" / "int8"))
variants: Any = importlib.import_module("variants")
numerics: Any = importlib.import_module("numerics")
speed: Any = importlib.import_module("speed")
bench: Any = importlib.import_module("bench")

SECONDS_A_PROMPT_TOKEN, SECONDS_A_TOKEN = 1e-4, 4e-3


def test_a_variant_is_what_differs_and_nothing_of_another_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VLLM_MARLIN_INPUT_DTYPE", "COCKPIT_QUANTIZED_EMBEDDING", "COCKPIT_INT8_FOLD"):
        monkeypatch.setenv(name, "left over")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    int8, stock = variants.environment(variants.INT8), variants.environment(variants.STOCK)
    assert int8["PYTHONPATH"] == f"{FOLDER / 'autoround_int8'}:{FOLDER / 'common'}:/mine"
    assert stock["PYTHONPATH"] == "/mine"
    assert {name for name in int8 if int8[name] != stock.get(name)} == {"VLLM_MARLIN_INPUT_DTYPE", "PYTHONPATH"}
    clamped = variants.environment(variants.CLAMPED)
    assert {**int8, "COCKPIT_INT8_FOLD": "clamp"} == clamped


@pytest.mark.parametrize(
    ("exact", "control", "status"), [(0.00440, 0.00431, 0), (0.01729, 0.00431, 1), (0.0, 0.0, 0), (None, 0.1, 1)]
)
def test_the_exact_fold_may_cost_a_tenth_more_than_the_control(exact: Any, control: Any, status: int) -> None:
    figures = {
        name: {"top1": 0.9, "kld": kld, "lost": 0} for name, kld in (("neg-int8-exact", exact), ("pos-int8", control))
    }
    assert numerics.verdict(figures)[0] == status
    assert numerics.verdict({})[0] == 1
    lines = "\n".join(numerics.rows(figures))
    assert "neg-dropped         no logits: see neg-dropped.log" in lines
    assert ("1.021" in lines) == (exact == 0.00440)


@pytest.mark.parametrize(("prefill", "decode", "status"), [(118.0, 97.0, 0), (114.0, 100.0, 1), (150.0, 96.0, 1)])
def test_speed_counts_what_is_wanted_of_both(
    prefill: float, decode: float, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    off = {"prefill 2000": 100.0, "decode": 100.0}
    assert speed.report({"off": off, "on": {"prefill 2000": prefill, "decode": decode}}) == status
    assert f"on/off {prefill / 100:.3f}   wanted 1.15" in capsys.readouterr().out


class Paced(BaseHTTPRequestHandler):
    """Takes as long as a server of known speed would, by a clock that nothing else moves."""

    now = 1_000.0

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert body["ignore_eos"] and body["min_tokens"] == body["max_tokens"]
        Paced.now += len(body["prompt"]) * SECONDS_A_PROMPT_TOKEN + body["max_tokens"] * SECONDS_A_TOKEN
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Paced)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_client_sees_what_the_server_gives(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "time", SimpleNamespace(perf_counter=lambda: Paced.now))
    found = bench.measure(url, prompts=(500,), repeats=3, decoded=25)
    truth = 500 / (500 * SECONDS_A_PROMPT_TOKEN + SECONDS_A_TOKEN)
    assert found["prefill 500"] == pytest.approx(truth)
    assert found["decode"] == pytest.approx(1 / SECONDS_A_TOKEN)
