"""What README.md and CONTRIBUTING.md name is there: verbs and their options, rigs, settings, files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cockpit.cli.main import VERBS
from cockpit.cli.parser import build_parser
from cockpit.config import Config
from cockpit.errors import CockpitError
from cockpit.rig.described import load_rig, packaged_rigs

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
PLANNED = README.partition("## Not there yet")[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def verbs_of(text: str) -> set[str]:
    return set(re.findall(r"`cockpit ([a-z]+)", text))


def test_every_verb_is_in_the_table_and_the_table_has_no_other() -> None:
    assert verbs_of(README.partition("| verb |")[2].partition("\n\n")[0]) | {"logs", "stop", "replay"} == set(VERBS)
    assert verbs_of(README) - verbs_of(PLANNED) <= set(VERBS)
    assert not verbs_of(PLANNED) & set(VERBS), "what is there is not planned any more"


@pytest.mark.parametrize("text", sorted(set(re.findall(r"`((?:cockpit )?(?:[a-z]+) [^`]*--[a-z][^`]*)`", README))))
def test_every_option_is_known(text: str) -> None:
    words = text.removeprefix("cockpit ").replace("[", "").replace("]", "").split()
    if words[0] not in VERBS:
        return
    known = build_parser(VERBS).parse_args
    with pytest.raises(SystemExit), pytest.MonkeyPatch.context() as patch:
        helped: list[str] = []
        patch.setattr("argparse.ArgumentParser.print_help", lambda self, *_: helped.append(self.format_help()))
        known([words[0], "--help"])
    for option in (word for word in words if word.startswith("--")):
        assert option in helped[0], f"{words[0]} {option}"


def test_the_described_rig_is_one(tmp_path: Path) -> None:
    (block,) = re.findall(r"\n    gpus:\n(?:    .*\n)+", README)
    file = tmp_path / "rig.yaml"
    file.write_text("".join(line[4:] + "\n" for line in block.splitlines() if line))
    assert [gpu.name for gpu in load_rig(str(file)).gpus] == ["NVIDIA GeForce RTX 3090"] * 2
    with pytest.raises(CockpitError):
        load_rig(str(tmp_path / "none.yaml"))


def test_rigs_and_settings_are_those_there_are() -> None:
    named = README.partition("There are ")[2].partition(";")[0]
    assert set(re.findall(r"`(\w+)`", named)) == set(packaged_rigs())
    (row,) = [line for line in README.splitlines() if line.startswith("| settings")]
    assert set(re.findall(r"`([a-z_]+)`", row)) == set(Config.__struct_fields__)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_file_that_is_named_exists(name: str) -> None:
    text = (ROOT / name).read_text()
    named = set(re.findall(r"`((?:cockpit|tests|slugs|scripts|docs)/[\w./-]+)`", text))
    named |= set(re.findall(r"\]\(((?!http)[\w./-]+)\)", text))
    assert len(named) > 3 and [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_what_contributing_names_in_a_file_is_there() -> None:
    names = re.findall(r"`(\w+)`\s+(?:of|in)\s+`((?:cockpit|tests)/[\w/]+\.py)`", CONTRIBUTING)
    assert len(names) > 4
    for word, file in names:
        assert re.search(rf"\b{word}\b", (ROOT / file).read_text()), (word, file)
