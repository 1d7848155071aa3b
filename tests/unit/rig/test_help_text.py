"""Options read back out of help texts that argparse prints here, and compared with what argparse itself accepts."""

from __future__ import annotations

import argparse
import contextlib
import io
import string

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cockpit.rig.flag_words import unknown_flags
from cockpit.rig.flags import EngineFlags
from cockpit.rig.help_text import read_help

WORD = st.text(alphabet=string.ascii_lowercase, min_size=1, max_size=6)
NAME = st.lists(WORD, min_size=1, max_size=3).map(lambda words: "--" + "-".join(words))
OPTION = st.tuples(
    NAME,
    st.sampled_from(["value", "flag", "pair", "choice", "many", "maybe", "metavar"]),
    st.text(alphabet=string.ascii_letters + " ,{}-[]'\n", max_size=60),
)
CHOICES = ["auto", "fp8", "fp8_e4m3"]


def parser_of(options: list[tuple[str, str, str]]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vllm serve", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    extra = {
        "value": {},
        "flag": {"action": "store_true"},
        "pair": {"action": argparse.BooleanOptionalAction},
        "choice": {"choices": CHOICES},
        "many": {"nargs": "+"},
        "maybe": {"nargs": "?"},
        "metavar": {"metavar": "['auto', 'hf']"},
    }
    for name, kind, explained in options:
        parser.add_argument(name, help=explained, default=None, **extra[kind])  # type: ignore[arg-type]
    return parser


@settings(max_examples=60, deadline=None)
@given(st.lists(OPTION, max_size=8, unique_by=lambda option: option[0]))
def test_every_option_is_read_back_as_argparse_has_it(options: list[tuple[str, str, str]]) -> None:
    names = {name for name, _, _ in options}
    assume(not any(name.startswith("--no-") or name == "--help" for name in names))
    flags = read_help(parser_of(options).format_help())
    for name, kind, _ in options:
        assert flags[name].takes_value == (kind not in ("flag", "pair"))
        assert flags[name].choices == (tuple(CHOICES) if kind == "choice" else None)
        assert (f"--no-{name[2:]}" in flags) == (kind == "pair")
    assert not flags["-h"].takes_value
    assert names <= set(flags)


@settings(max_examples=60, deadline=None)
@given(st.lists(OPTION, min_size=1, max_size=6, unique_by=lambda option: option[0]), st.data())
def test_a_beginning_is_known_exactly_when_argparse_takes_it(
    options: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    assume(not any(name.startswith("--no-") or name == "--help" for name, _, _ in options))
    # Older Pythons refuse a beginning of two spellings of one option, newer ones take it.
    options = [option for option in options if option[1] != "pair"]
    assume(options)
    parser = parser_of(options)
    whole, kind, _ = data.draw(st.sampled_from(options))
    word = whole[: data.draw(st.integers(3, len(whole)))]
    argv = [word] if kind == "flag" else [f"{word}=auto"]
    flags = EngineFlags(version="1", flags=read_help(parser.format_help()))
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            parser.parse_args(argv)
        taken = True
    except SystemExit as end:
        taken = end.code == 0
    assert (unknown_flags(argv, flags) == []) == taken


@given(st.text(alphabet=st.sampled_from(" -{}[],=ab\n\x1b"), max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for name, flag in read_help(text).items():
        assert name in flag.names and name.startswith("-")


def test_the_order_of_newer_pythons_is_read_too() -> None:
    flags = read_help(
        "  -tp, --tensor-parallel-size N\n                 ranks\n  -x, --enable-x, --disable-x  turn it on\n"
    )
    assert flags["-tp"] == flags["--tensor-parallel-size"]
    assert flags["-tp"].takes_value
    assert flags["--disable-x"].names == ("-x", "--enable-x", "--disable-x")
    assert not flags["-x"].takes_value
