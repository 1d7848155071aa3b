"""config.yaml: absent, empty, right and wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.config import Config, config_file, load_config
from cockpit.errors import CockpitError


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    config_file().parent.mkdir()
    return config_file()


def test_without_a_file_there_are_defaults() -> None:
    assert load_config() == Config()
    assert load_config().host == "127.0.0.1"


def test_an_empty_file_means_defaults(file: Path) -> None:
    file.write_text("\n")
    assert load_config() == Config()


def test_every_setting_is_read(file: Path) -> None:
    file.write_text(
        "engines: [/opt/vllm]\nslug_folders: [~/recipes]\nhost: 0.0.0.0\ntheme: x\n"
        "refresh_seconds: 2\nkeys: {quit: f10}\n"
    )
    assert load_config() == Config(
        engines=["/opt/vllm"],
        slug_folders=["~/recipes"],
        host="0.0.0.0",
        theme="x",
        refresh_seconds=2.0,
        keys={"quit": "f10"},
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("host: 127.0.0.1\nhots: x\n", "line 2: hots: there is no such key"),
        ("engines: /opt/vllm\n", "line 1: engines: expected `array`"),
        ("refresh_seconds: 0\n", "line 1: refresh_seconds: expected `float` >= 0.2"),
        ("keys:\n  quit: q\n  help: 1\n", "line 3: keys.help: expected `str`, got `int` (put it in quotes)"),
        ("host: a\nhost: b\n", "line 2: the key 'host' stands twice"),
        ("# nothing but a comment\n", "the file is empty"),
    ],
)
def test_a_wrong_setting_is_one_sentence_with_file_and_line(file: Path, text: str, says: str) -> None:
    file.write_text(text)
    with pytest.raises(CockpitError) as caught:
        load_config()
    assert says in caught.value.title
    assert str(file) in caught.value.title
    assert caught.value.exit_code == 2


def test_a_folder_in_its_place_is_one_sentence(file: Path) -> None:
    file.mkdir()
    with pytest.raises(CockpitError, match="cannot be read"):
        load_config()
