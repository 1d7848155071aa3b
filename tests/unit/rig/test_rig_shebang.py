from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig_fakes import write_script

from cockpit.rig.shebang import interpreter_words, python_of


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"#!/opt/v/bin/python3\nimport re\n", ["/opt/v/bin/python3"]),
        (b"#! /opt/v/bin/python -sE\n", ["/opt/v/bin/python", "-sE"]),
        (b"#!/usr/bin/env python3\n", ["python3"]),
        (b"#!/usr/bin/env -S python3 -u\n", ["python3"]),
        (b"#!/bin/sh\n'''exec' /long/path/python \"$0\" \"$@\"\n' '''\n", ["/long/path/python"]),
        (b"#!/bin/sh\n'''exec' \"/with space/python\" \"$0\" \"$@\"\n' '''\n", ["/with space/python"]),
        (b"#!/bin/sh\n'''exec' '/with space/python' \"$0\" \"$@\"\n' '''\n", ["/with space/python"]),
        (b'#!/bin/sh\n\'\'\'exec\' "$(dirname "$0")"/python "$0" "$@"\n', None),
        (b"#!/bin/bash\necho hello\n", None),
        (b"#!/bin/sh\n", None),
        (b"#!\n", None),
        (b"\x7fELF\x02\x01", None),
        (b"", None),
    ],
)
def test_every_form_of_first_lines_names_its_interpreter(head: bytes, words: list[str] | None) -> None:
    found = interpreter_words(head)
    assert (found[: len(words)] if found and words else found) == words


@given(st.binary(max_size=300))
def test_no_bytes_make_the_reader_fail(head: bytes) -> None:
    for start in (b"", b"#!", b"#!/bin/sh\n'''exec' "):
        words = interpreter_words(start + head)
        assert words is None or all(isinstance(word, str) and word for word in words)


path_text = st.text(
    st.characters(codec="utf-8", exclude_characters="\"'$\\`", exclude_categories=["C", "Z"]), min_size=1
)


@given(path_text)
def test_the_long_path_form_gives_back_the_path_that_was_written(name: str) -> None:
    written = f"/opt/{name}/bin/python"
    head = f"#!/bin/sh\n'''exec' \"{written}\" \"$0\" \"$@\"\n' '''\n".encode()
    assert interpreter_words(head) == [written]


def test_a_script_without_a_python_line_runs_under_the_python_beside_it(tmp_path: Path) -> None:
    command = write_script(tmp_path / "vllm", '#!/bin/sh\n\'\'\'exec\' "$(dirname "$0")"/python "$0" "$@"\n')
    assert python_of(command) is None
    (tmp_path / "python").symlink_to(sys.executable)
    assert python_of(command) == tmp_path / "python"


def test_a_named_python_that_is_gone_is_not_replaced_by_another(tmp_path: Path) -> None:
    command = write_script(tmp_path / "vllm", "#!/gone/bin/python\n")
    (tmp_path / "python").symlink_to(sys.executable)
    assert python_of(command) is None
