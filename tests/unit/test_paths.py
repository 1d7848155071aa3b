"""Homes, private folders and files that are replaced in one step."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit import paths
from cockpit.errors import CockpitError


def test_every_home_follows_its_xdg_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    assert paths.config_home() == tmp_path / "CONFIG" / "cockpit"
    assert paths.engines_home() == tmp_path / "DATA" / "cockpit" / "engines"
    assert paths.instances_home() == tmp_path / "STATE" / "cockpit" / "instances"
    assert paths.cache_home() == tmp_path / "CACHE" / "cockpit"


def test_the_shipped_recipes_are_found_in_a_checkout() -> None:
    assert (paths.shipped("slugs") / "cpu" / "tiny-qwen3.yaml").is_file()


def test_a_private_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    open_to_all = tmp_path / "a"
    open_to_all.mkdir(mode=0o777)
    open_to_all.chmod(0o777)
    assert paths.ensure_private(open_to_all).stat().st_mode & 0o777 == 0o700
    assert paths.ensure_private(tmp_path / "b" / "c").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "b" / "c").iterdir()) == []


def test_a_file_in_place_of_a_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    for folder in (tmp_path / "state", tmp_path / "state" / "instances"):
        with pytest.raises(CockpitError, match=r"cannot write to .*state.*: .*Make it writable"):
            paths.ensure_private(folder)


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "record.json"
    paths.write_atomic(target, b"old")
    paths.write_atomic(target, b"new")
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_write_keeps_the_old_content_and_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    (target / "kept").write_text("x")
    with pytest.raises(OSError):
        paths.write_atomic(target, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert (target / "kept").exists()


def test_a_test_without_a_home_of_its_own_has_not_that_of_who_runs_it() -> None:
    assert all("cockpit-tests-" in str(home) for home in (paths.state_home(), paths.config_home()))
