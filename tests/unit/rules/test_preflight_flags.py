"""Flags that this vLLM does not have, and values that an option does not take, are said before the boot."""

from __future__ import annotations

import pytest

from cockpit.rig.flags import EngineFlags
from cockpit.rig.help_text import Flag
from cockpit.rules.host import flag_findings


def test_unknown_flags_and_the_forms_that_only_look_unknown() -> None:
    known = EngineFlags(
        version="0.33.0",
        flags={
            name: Flag(names=(name,), takes_value=True)
            for name in ("--kv-cache-memory-bytes", "--max-model-len", "--speculative-config")
        },
    )
    (finding,) = flag_findings(["--swap-space", "4"], known)
    assert (finding.rule, finding.severity) == ("flag-unknown", "block")
    fine = ["--kv-cache-memory=9", "--max_model_len", "32k", "--speculative-config.method", "mtp"]
    assert list(flag_findings(fine, known)) == []


CHOOSY = EngineFlags(
    version="0.33.0",
    flags={
        "--moe-backend": Flag(names=("--moe-backend",), takes_value=True, choices=("auto", "flashinfer_cutlass")),
        "--dtype": Flag(names=("--dtype",), takes_value=True, choices=("auto", "half")),
        "--kv-cache-dtype": Flag(names=("--kv-cache-dtype",), takes_value=True, choices=("auto",)),
        "--seed": Flag(names=("--seed",), takes_value=True),
    },
)


@pytest.mark.parametrize("words", [["--dtype", "int4"], ["--dtype=int4"], ["--seed", "1", "--dtype", "int4"]])
def test_values_that_an_option_does_not_take_are_said_with_those_that_it_takes(words: list[str]) -> None:
    (finding,) = flag_findings(words, CHOOSY)
    assert (finding.rule, finding.severity) == ("flag-value", "block")
    assert "int4 for --dtype" in finding.message and finding.fix == "It takes auto, half."


def test_the_value_that_was_meant_is_named_first() -> None:
    (finding,) = flag_findings(["--dtype", "halff"], CHOOSY)
    assert finding.fix == "Did you mean half? It takes auto, half."


@pytest.mark.parametrize(
    "words",
    [
        ["--dtype", "half", "--moe-backend", "FlashInfer-CUTLASS"],
        ["--kv-cache-dtype", "fp9"],
        ["--dtype"],
        ["--dtype="],
        ["--dtype", "--seed", "1"],
        ["--", "--dtype", "int4"],
    ],
)
def test_values_that_are_taken_or_none_are_not_complained_about(words: list[str]) -> None:
    assert list(flag_findings(words, CHOOSY)) == []
