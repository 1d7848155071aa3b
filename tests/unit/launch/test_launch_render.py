"""The plan as a line that a shell can run, without its secrets."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes import entry, facts, plan

from cockpit.cli.shapes import plan_json
from cockpit.launch.render import environment_words, is_secret, shell_command, shown_env
from cockpit.launch.types import LaunchPlan


def with_words(argv: tuple[str, ...], env: dict[str, str | None]) -> LaunchPlan:
    return msgspec.structs.replace(plan(), argv=argv, env=env)


WORDS = st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
NAMES = st.from_regex(r"[A-Z_][A-Z0-9_]{0,12}", fullmatch=True).filter(lambda name: not is_secret(name))


@given(
    st.lists(WORDS | st.sampled_from(["'", '"', "$(x)", "`x`", "a b", "", "\n", "-x", "*", "\\"]), min_size=1),
    st.dictionaries(NAMES, st.none() | WORDS, max_size=4),
)
def test_the_line_splits_into_the_very_words(argv: list[str], env: dict[str, str | None]) -> None:
    words = shlex.split(shell_command(with_words(tuple(argv), env)))
    removed = [word for name, value in env.items() if value is None for word in ("-u", name)]
    assigned = [f"{name}={value}" for name, value in env.items() if value is not None]
    assert words == [*(["env"] if env else []), *removed, *assigned, *argv]


def test_a_shell_runs_it_as_planned() -> None:
    hostile = ("a b", "$(echo no)", "it's", '"', "`x`", "\\", "*", "two\nlines", "", "é", "-u", "A=b")
    show = "import json,os,sys; print(json.dumps([sys.argv[1:], os.environ.get('A'), os.environ.get('B')]))"
    planned = with_words((sys.executable, "-c", show, *hostile), {"A": "it's $HOME", "B": None})
    done = subprocess.run(
        ["sh", "-c", shell_command(planned)], env={"B": "inherited"}, capture_output=True, check=True, text=True
    )
    assert json.loads(done.stdout) == [list(hostile), "it's $HOME", None]


@pytest.mark.parametrize("name", ["VLLM_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "MY_ApiKey"])
def test_secrets_are_shown_nowhere(name: str) -> None:
    planned = plan(of=entry(env={name.upper(): "hunter2", "OTHER": "shown"}))
    shown: list[Any] = [
        shell_command(planned),
        environment_words(planned),
        shown_env(planned.env),
        plan_json(planned),
    ]
    for text in map(str, shown):
        assert "hunter2" not in text
        assert "<redacted>" in text
        assert "shown" in text
    assert planned.env[name.upper()] == "hunter2"


def test_a_secret_that_is_removed_says_so() -> None:
    assert shown_env({"HF_TOKEN": None}) == {"HF_TOKEN": None}


def test_a_plan_without_changes_has_no_env_prefix() -> None:
    planned = plan()
    same = {name: value for name, value in planned.env.items() if value is not None}
    assert shell_command(plan(with_facts=facts(same))).startswith("/e/bin/vllm serve owner/model ")
