"""The seam that the verbs and the screen share, on homes of its own and without any engine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from cockpit import paths, this_host
from cockpit.config import Config
from cockpit.errors import CockpitError
from cockpit.rig.described import load_rig
from cockpit.session import Session, describe, refuse_if_blocked

MINE = "name: vllm/mine\nmodel: Mine\nweights: {repo: o/n, format: bf16}\nmax_model_len: 4096\n"


@pytest.fixture(autouse=True)
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return tmp_path


def session(**config: object) -> Session:
    return Session(Config(**config), environ={})  # type: ignore[arg-type]


def test_later_slug_folders_win(homes: Path) -> None:
    for at, (folder, length) in enumerate([(paths.user_slugs(), 4096), (homes / "a", 8192), (homes / "b", 16384)]):
        folder.mkdir(parents=True)
        (folder / f"{at}.yaml").write_text(MINE.replace("4096", str(length)))
    assert session().catalog.get("vllm/mine").slug.max_model_len == 4096
    both = session(slug_folders=[str(homes / "a"), str(homes / "b")])
    assert both.catalog.get("vllm/mine").slug.max_model_len == 16384


def test_a_plan_by_alias_is_that_of_the_slug() -> None:
    one = session()
    assert one.plan("vllm/qwen-27b-dual-fast", {}).slug == "vllm/dual"
    assert one.check("vllm/qwen-27b-dual-fast", {}).slug == "vllm/dual"


def test_without_an_engine_the_plan_says_why_and_is_refused() -> None:
    plan = session().plan("cpu/tiny-qwen3", {})
    assert "engine-missing" in [finding.rule for finding in plan.findings]
    for force in (False, True):
        with pytest.raises(CockpitError) as caught:
            refuse_if_blocked(plan, force)
        assert caught.value.title == "cpu/tiny-qwen3 cannot be served"
        assert "no vLLM engine for cpu was found" in caught.value.detail
        assert "cockpit engines install cpu" in caught.value.fix


def test_a_port_that_was_chosen_and_is_taken_is_a_finding() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        findings = session().check("cpu/tiny-qwen3", {"port": port}).findings
        assert f"port {port} is taken by" in " ".join(finding.message for finding in findings)
    assert "port-taken" not in [
        finding.rule for finding in session().check("cpu/tiny-qwen3", {"port": port}).findings
    ]


def test_a_host_that_is_not_this_machines_is_one_sentence() -> None:
    for chosen in ({"host": "192.0.2.1", "port": 8123}, {"host": "192.0.2.1"}):
        findings = session().check("cpu/tiny-qwen3", chosen).findings
        (address,) = [finding for finding in findings if finding.rule == "address"]
        assert address.severity == "block"
        assert "cannot listen on 192.0.2.1" in address.message


def test_the_catalog_is_read_once_until_it_is_refreshed() -> None:
    one = session()
    before = one.catalog
    paths.user_slugs().mkdir(parents=True)
    (paths.user_slugs() / "mine.yaml").write_text(MINE)
    assert one.catalog is before
    one.refresh()
    assert one.catalog.get("vllm/mine")


def test_findings_become_lines_with_a_glyph() -> None:
    plan = session().plan("cpu/tiny-qwen3", {})
    assert all(describe(finding).endswith(".") for finding in plan.findings)
    assert describe(plan.findings[0]).startswith("✕ no vLLM engine for cpu was found. `cockpit engines")


def test_ports_of_this_machine_say_nothing_about_a_described_one(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Session(Config(), environ={}, described_rig=load_rig("2x3090"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        monkeypatch.setattr(this_host, "FIRST_PORT", port)
        assert one.plan("vllm/dual", {}).port == port
        assert not [
            finding for finding in one.plan("vllm/dual", {"port": port}).findings if finding.rule == "port-taken"
        ]


def test_nothing_is_started_on_a_rig_that_is_only_described() -> None:
    one = Session(Config(), environ={}, described_rig=load_rig("2x3090"))
    with pytest.raises(CockpitError, match="only described") as caught:
        one.start(one.plan("vllm/dual", {}), force=True)
    assert caught.value.exit_code == 2


def test_what_all_slugs_share_is_read_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def counted(name: str) -> None:
        real = getattr(this_host, name)

        def read(*arguments: object, **options: object) -> object:
            reads.append(name)
            return real(*arguments, **options)

        monkeypatch.setattr(this_host, name, read)

    shared = ["describe_holders", "find_api_key", "first_free_port", "read_facts"]
    for name in shared:
        counted(name)
    one = session()
    host = one.this_host()
    entries = one.catalog.entries
    assert len(entries) > 5 and {entry.slug.platform for entry in entries} == {"cpu", "cuda"}
    together = [one.judge(entry, host) for entry in entries]
    assert sorted(reads) == shared
    assert together == [one.judge(entry) for entry in entries]
    assert reads.count("read_facts") == 1 + len(entries), "a slug on its own is judged by the host as it is now"
    reads.clear()
    assert len(one.best("qwen")[1]) > 1
    assert sorted(reads) == shared
