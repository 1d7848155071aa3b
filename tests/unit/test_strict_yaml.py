"""The YAML reader: what it accepts, and that whatever it is given it answers with one sentence and a line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cockpit import paths
from cockpit.errors import CockpitError
from cockpit.strict_yaml import MAX_BYTES, MAX_DEPTH, decode, read_text

SHIPPED = paths.shipped("slugs") / "qwen3.6-27b" / "dual.yaml"


class Recipe(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str = ""
    size: int = 0
    share: float = 0.0
    words: list[str] = []
    anything: Any = None


def refusal(text: str, kind: Any = Recipe) -> str:
    with pytest.raises(CockpitError) as caught:
        decode(text, kind, "f.yaml")
    return caught.value.title


def anything(text: str) -> Any:
    return decode(f"anything: {text}", Recipe, "f.yaml")[0].anything


def test_values_come_with_the_line_they_stand_on() -> None:
    value, lines = decode("# a comment\nname: a\nwords:\n  - b\n  - c\n", Recipe, "f.yaml")
    assert value == Recipe(name="a", words=["b", "c"])
    assert lines[("name",)] == 2
    assert lines[("words",)] == 3
    assert lines[("words", 1)] == 5


@pytest.mark.parametrize(
    "word", ["on", "off", "yes", "no", "On", "y", "1:30", "0x10", "2026-07-30", "<<", "=", ".inf"]
)
def test_yaml_1_1_surprises_are_plain_words(word: str) -> None:
    assert anything(word) == word


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("false", False), ("null", None), ("~", None), ("", None), ("12", 12), ("-3", -3), ("+3", 3),
     ("0.5", 0.5), ("1e3", 1000.0), (".5", 0.5), ("'12'", "12"), ('"true"', "true"), ("{a: [1, b]}", {"a": [1, "b"]}),
     ("010", 10)],
)  # fmt: skip
def test_scalars_are_those_of_the_core_schema(text: str, value: Any) -> None:
    read = anything(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("name: a\nnaem: b\n", 2, "naem: there is no such key"),
        ("name: a\nsize: 1\nname: b\n", 3, "the key 'name' stands twice"),
        ("name: a\nsize: many\n", 2, "size: expected `int`, got `str`"),
        ("name: 5\n", 1, "put it in quotes"),
        ("words:\n  - a\n  - 5\n", 3, "words.1: expected `str`"),
        ("name: !!python/object/apply:os.system ['true']\n", 1, "tags (!name) are not allowed"),
        ("name: a\nanything: !!str 5\n", 2, "tags (!name) are not allowed"),
        ("anything: !!bool yes\n", 1, "tags (!name) are not allowed"),
        ("anything: !x {a: 1}\n", 1, "tags (!name) are not allowed"),
        ("anything:\n  - ! a\n", 2, "tags (!name) are not allowed"),
        ("name: &a b\nanything: *a\n", 2, "aliases (*name) are not allowed"),
        ("anything: *nowhere\n", 1, "aliases (*name) are not allowed"),
        ("name: a\n  size: 1\n", 2, "not valid YAML"),
        ("name: 'a\n", 2, "not valid YAML"),
        ("name: a\n\tsize: 1\n", 2, "not valid YAML"),
        ("name: a\n---\nname: b\n", 2, "not valid YAML"),
        ("name: a\nanything: {[1]: 2}\n", 2, "a key must be a word"),
        ("name: a\n? {a: b}\n: c\n", 2, "a key must be a word"),
        ('name: "a\\0b"\n', 1, "control characters are not allowed"),
        ('name: a\nanything: "\\ud800"\n', 2, "invalid Unicode character escape code"),
        ('anything: {"\\e[2J": 1}\n', 1, "control characters are not allowed"),
        ("name: a\nanything: b\x1b[2J\n", 2, "control characters are not allowed"),
        ("name: a\nanything: \x00\n", 2, "control characters are not allowed"),
        ('name: a\nanything: "\\UFFFFFFFF"\n', 2, "invalid Unicode character escape code"),
        ("name: a\nshare: 1e999\n", 2, "is not a number that can be used"),
        (f"name: a\nsize: {'9' * 5000}\n", 2, "is not a number that can be used"),
        ("name: a\nanything: " + "[" * (MAX_DEPTH + 1), 2, "nested too deeply"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_line(text: str, line: int, says: str) -> None:
    title = refusal(text)
    assert title.startswith(f"f.yaml, line {line}: ")
    assert says in title
    assert len(title) < 200


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_an_empty_file_is_named_so(text: str) -> None:
    with pytest.raises(CockpitError, match=r"f\.yaml: the file is empty") as caught:
        decode(text, Recipe, "f.yaml")
    assert caught.value.fix == "Write its keys into it, or take the file away."


@pytest.mark.parametrize("text", ["just words", "- a\n- b\n", "5", "null"])
def test_a_file_that_is_no_mapping_is_refused(text: str) -> None:
    assert "must be a mapping" in refusal(text)


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, "{a: " * 50_000, "- " * 100_000, "? " * 100_000, "a:\n " * 5_000, "'" * 200_000, "&a " * 80_000,
     "!" * 200_000, "%" * 200_000, f"%YAML {'9' * 100_000}.1\n---\na", "a: {" + "b" * 200_000],
)  # fmt: skip
def test_hostile_files_are_refused_at_once(text: str) -> None:
    began = time.process_time()
    refusal(text)
    assert time.process_time() - began < 30  # unguarded, the first takes minutes


def test_a_long_key_is_not_repeated_in_full() -> None:
    assert len(refusal("k" * 5000 + ": 1\n")) < 200
    assert len(refusal(f"{{'{'k' * 500}': 1, '{'k' * 500}': 2}}")) < 200


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm() -> None:
    value, lines = decode("\ufeffname: a\r\nsize: 3\r\n", Recipe, "f.yaml")
    assert value == Recipe(name="a", size=3)
    assert lines[("size",)] == 2


YAML_LIKE = st.text(alphabet="abon5.e-+:,?[]{}'\"\\#&*!|>%@` \n\t\rUxu0~<=\0\x1b\x85é\ufeff", max_size=60)


@settings(max_examples=150, deadline=None)
@given(st.one_of(YAML_LIKE, st.text(max_size=60)))
@example('"\\U00110000"')
@example("%YAML 1.99999999999999999999\n---\na")
@example("\ud800")
@example("a: !<!> b")
def test_no_text_raises_anything_but_a_cockpit_error(text: str) -> None:
    for kind in (Recipe, dict[str, Any]):
        try:
            decode(text, kind, "f.yaml")
        except CockpitError as error:
            assert error.title.startswith("f.yaml")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_damage_to_a_real_recipe_raises_anything_but_a_cockpit_error(data: st.DataObject) -> None:
    from cockpit.catalog.slug import Slug

    text = SHIPPED.read_text(encoding="utf-8")
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    try:
        decode(text[:start] + data.draw(YAML_LIKE) + text[end:], Slug, "f.yaml")
    except CockpitError as error:
        assert error.title.startswith("f.yaml")


PRINTABLE = st.characters(exclude_categories=["Cc", "Cs", "Cn", "Zl", "Zp"], exclude_characters="\ufeff")


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=PRINTABLE, max_size=40))
def test_any_printable_text_in_quotes_comes_back_unchanged(text: str) -> None:
    quoted = "'" + text.replace("'", "''") + "'"
    assert anything(quoted) == text


def test_a_file_is_read_up_to_the_limit_and_refused_beyond_it(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(b"#" * MAX_BYTES)
    assert len(read_text(file)) == MAX_BYTES
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(CockpitError, match="larger than 256 KiB"):
        read_text(file)


def test_an_endless_file_is_not_read_to_its_end() -> None:
    with pytest.raises(CockpitError, match="larger than 256 KiB"):
        read_text(Path("/dev/zero"))


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(b"name: a\nmodel: caf\xe9\n")
    with pytest.raises(CockpitError, match="line 2: not UTF-8 text"):
        read_text(file)


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match=r"cannot be read: Is a directory"):
        read_text(tmp_path)
