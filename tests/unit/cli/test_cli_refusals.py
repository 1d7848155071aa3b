"""Every wrong use of the command line: one sentence with what to do, exit code 2, nothing on stdout."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit import paths
from cockpit.config import config_file

Refused = Callable[..., str]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["servee"], "there is no verb 'servee'. Did you mean `cockpit serve`?"),
        (["slug"], "there is no verb 'slug'. Did you mean `cockpit slugs`?"),
        (["start", "vllm/dual"], "there is no verb 'start'. Did you mean `cockpit serve`?"),
        (["zzz"], "there is no verb 'zzz'. `cockpit --help` lists them."),
        (["slugs", "--jsn"], "unrecognized arguments: --jsn. Did you mean --json?"),
        (["slugs", "-x"], "unrecognized arguments: -x. See `cockpit slugs --help`."),
        (["--vresion"], "unrecognized arguments: --vresion. Did you mean --version?"),
        (["check"], "the following arguments are required: SLUG. See `cockpit check --help`."),
        (["check", "vllm/dual", "--set"], "argument --set: expected one argument. See `cockpit check --help`."),
        (["serve", "vllm/dual", "--timeout", "soon"], "argument --timeout: invalid float value: 'soon'. See"),
        (["top"], "top needs one server. Give the NAME of an instance (`cockpit ps`) or a --url."),
        (["top", "x", "--url", "http://h"], "top needs one server."),
        (["top", "x", "--seconds", "0"], "--seconds is out of range. Use 0.1 to 3600."),
        (["top", "x", "--seconds", "nan"], "--seconds is out of range. Use 0.1 to 3600."),
        (["logs", "x", "-n", "-1"], "-n takes a number of lines. Use 0 to 1,000,000."),
        (["logs", "x", "-n", "9" * 30], "-n takes a number of lines. Use 0 to 1,000,000."),
        (["engines", "install"], "engines install needs a name. Give cpu or a vLLM version such as"),
        (["engines", "remove"], "engines remove needs a name. Give an id of `cockpit engines`."),
        (["engines", "upgrade"], "there is no action 'upgrade'. Use install, remove."),
        (["kv", "x", "--prefix-caching", "maybe"], "--prefix-caching takes no 'maybe'. Use on, off."),
        (
            ["kv", "x", "--prefix-caching", "onn"],
            "--prefix-caching takes no 'onn'. Did you mean `--prefix-caching on`?",
        ),
        (["engines", "instal"], "there is no action 'instal'. Did you mean `cockpit engines install`?"),
        (["stop", "nobody"], "nobody"),
        (["logs", "nobody"], "nobody"),
        (["top", "nobody", "--once"], "nobody"),
        (["stop", "../../etc/passwd"], "etc/passwd"),
    ],
)
def test_wrong_usage_is_one_sentence(refused: Refused, words: list[str], says: str) -> None:
    assert says in refused(*words)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["vllm/dula"], "no slug is named 'vllm/dula'. Did you mean vllm/dual"),
        (["dual"], "no slug is named 'dual'. Did you mean vllm/dual?"),
        (["x" * 500], "lists them all."),
        (["vllm/dual", "--set", "int8"], "--set int8 has no value. Write --set int8=VALUE."),
        (["tiny"], "no slug is named 'tiny'. Did you mean cpu/tiny-qwen3?"),
        (["vllm/dual", "--set", "int9=on"], "no toggle is named 'int9'. Did you mean int8?"),
        (["vllm/dual", "--set", "context=1"], "no toggle is named 'context'. Did you mean max_model_len?"),
        (["vllm/dual", "--set", "int8=maybe"], "int8=maybe cannot be used. Use one of off, on."),
        (["vllm/dual", "--set", "gpus=a"], "gpus=a cannot be used. Use GPU indices separated by commas"),
        (["vllm/dual", "--set", "port=99999"], "port=99999 cannot be used. Use a whole number, 1 to 65535."),
        (["vllm/dual", "--set", "host=192.0.2.1", "--set", "port=8123"], "cannot listen on 192.0.2.1 port 8123"),
        (["vllm/dual", "--engine", "nowhere"], "there is no engine 'nowhere': known engines: none."),
        (["vllm/dual", "--engine", "/bin/sh"], "/bin/sh is not a vLLM command"),
        (["vllm/dual", "--engine", "/etc"], "/etc has no vllm command in it."),
    ],
)
def test_what_cannot_be_planned_is_one_sentence(refused: Refused, words: list[str], sentence: str) -> None:
    assert sentence in refused("serve", *words)


@pytest.mark.parametrize("verb", ["check", "plan"])
def test_check_and_plan_refuse_like_serve(refused: Refused, verb: str) -> None:
    assert "Did you mean int8?" in refused(verb, "vllm/dual", "--set", "int9=on")
    assert "Did you mean vllm/dual" in refused(verb, "vllm/dula")


def test_hostile_words_come_back_harmless(refused: Refused) -> None:
    for words in (["check", "\x1b[2J\x07"], ["check", "vllm/dual", "--set", "port=\x1b[2J"], ["\x1b[2J"]):
        assert "\x1b" not in refused(*words)


def test_serving_without_an_engine_names_the_command_that_makes_one(refused: Refused) -> None:
    sentence = refused("serve", "cpu/tiny-qwen3")
    assert sentence.startswith("cpu/tiny-qwen3 cannot be served: no vLLM engine for cpu was found.")
    assert "`cockpit engines install cpu`" in sentence


def test_force_does_not_serve_without_an_engine(refused: Refused) -> None:
    assert "no vLLM engine for cuda was found" in refused("serve", "vllm/dual", "--force")


def test_an_engine_for_other_hardware_is_named(refused: Refused, cpu_engine: Path) -> None:
    for place in (cpu_engine, cpu_engine.parent.parent):
        sentence = refused("serve", "vllm/dual", "--engine", str(place))
        assert f"engine {place} is a cpu build and this slug needs cuda" in sentence


def test_a_taken_port_is_named_with_its_owner(refused: Refused, cpu_engine: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        sentence = refused("serve", "cpu/tiny-qwen3", "--engine", str(cpu_engine), "--set", f"port={port}")
    assert sentence.startswith(f"cpu/tiny-qwen3 cannot be served: port {port} is taken by ")
    assert sentence.endswith("Set another port, or leave it out to take the first free one from 8000.")


def test_a_state_folder_that_cannot_be_written_starts_nothing(
    refused: Refused, cpu_engine: Path, homes: Path
) -> None:
    homes.mkdir()
    (homes / "state").write_text("a file in place of a folder")
    sentence = refused("serve", "cpu/tiny-qwen3", "--engine", str(cpu_engine))
    assert sentence.startswith(f"cannot write to {paths.state_home()}")
    assert "XDG_STATE_HOME" in sentence


@pytest.mark.parametrize("words", [["slugs"], ["check", "vllm/dual"], ["ps"], ["engines"]])
def test_a_broken_config_is_named_with_its_line(refused: Refused, words: list[str]) -> None:
    config_file().parent.mkdir(parents=True)
    config_file().write_text("host: 127.0.0.1\nthem: dark\n")
    assert refused(*words) == (
        f"{config_file()}, line 2: them: there is no such key. Correct that line and run the command again."
    )


def test_a_broken_slug_is_named_when_it_is_asked_for(
    refused: Refused, write_slug: Callable[[str, str], Path]
) -> None:
    file = write_slug("mine.yaml", "name: vllm/mine\nmodle: x\n")
    assert refused("check", "vllm/mine").startswith(f"{file}, line 2: modle: there is no such key.")


def test_the_screen_needs_a_terminal(refused: Refused) -> None:
    assert refused() == (
        "the screen needs a terminal. Use a verb instead, such as `cockpit slugs` or `cockpit ps`; "
        "`cockpit --help` lists them."
    )


def test_a_rig_before_a_verb_is_for_the_screen(refused: Refused) -> None:
    assert refused("--rig", "2x3090", "slugs") == "--rig before a verb is for the screen. Put it after slugs."
