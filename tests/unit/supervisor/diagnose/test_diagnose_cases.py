"""Public failures and other wordings of each kind: every one is recognised, explained, and has a fix that applies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fixture_yaml import read_yaml

from cockpit.errors import CockpitError
from cockpit.launch.toggles import BY_ID
from cockpit.launch.values import parse_value
from cockpit.supervisor.diagnose.files import diagnose_lines
from cockpit.supervisor.diagnose.types import Diagnosis
from cockpit.supervisor.logfile import clean

FIXTURES = Path(__file__).parent / "fixtures"


def load(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = read_yaml(FIXTURES / name)
    return cases


REPORTS = load("reports.yaml")
REWORDINGS = load("rewordings.yaml")
ISSUES = [*load("issues.yaml"), *load("field.yaml")]


def diagnosis_of(log: str) -> Diagnosis:
    return diagnose_lines([clean(line, 8000) for line in log.split("\n")])


def offered(diagnosis: Diagnosis) -> list[tuple[str, Any]]:
    return [pair for fix in diagnosis.fixes for pair in [*fix.set.items(), *fix.env.items()]]


def check(case: dict[str, Any]) -> Diagnosis:
    diagnosis = diagnosis_of(case["log"])
    assert diagnosis.symptom == case["symptom"], diagnosis
    assert diagnosis.healthy == case.get("healthy", False)
    pairs = offered(diagnosis)
    for pair in [*case.get("set", {}).items(), *case.get("env", {}).items()]:
        assert pair in pairs
    if diagnosis.symptom is not None:
        assert diagnosis.explanation and diagnosis.fixes
        assert "–" not in diagnosis.explanation and "{name}" not in diagnosis.explanation
    for fix in diagnosis.fixes:
        for name, value in fix.set.items():
            settable(name, value)
    return diagnosis


def settable(name: str, value: Any) -> None:
    """A fix can be given as ``--set name=value``."""
    try:
        assert parse_value(name, BY_ID[name].kind, str(value)) == value
    except CockpitError as error:
        raise AssertionError(error.sentence()) from error


@pytest.mark.parametrize("case", REPORTS, ids=[case["id"] for case in REPORTS])
def test_a_public_failure_is_recognised(case: dict[str, Any]) -> None:
    check(case)


@pytest.mark.parametrize("case", REWORDINGS, ids=[f"{n}-{case['symptom']}" for n, case in enumerate(REWORDINGS)])
def test_other_wordings_of_a_kind_are_recognised(case: dict[str, Any]) -> None:
    diagnosis = check(case)
    assert case.get("never_set") not in dict(offered(diagnosis))


@pytest.mark.parametrize("case", ISSUES, ids=[f"{n}-{case['source']}" for n, case in enumerate(ISSUES)])
def test_what_people_reported_is_recognised_by_its_first_exception(case: dict[str, Any]) -> None:
    diagnosis = check(case)
    assert (diagnosis.first_exception or "").startswith(case.get("first", ""))
    said = " ".join([diagnosis.explanation or "", *(fix.text for fix in diagnosis.fixes)])
    assert case.get("says", "") in said and case.get("never", "\0") not in said


def test_the_table_of_reports_has_no_unknown_but_those_without_a_fault() -> None:
    """Prints case, symptom and best fix (``pytest -s``)."""
    silent = {
        "MEM-09": "a sentence about an error, not its text",
        "MEM-13": "no line tells",
        "PROC-11": "NCCL's own lines",
        "ENV-15": "no line tells",
        "QUANT-12": "a warning of healthy boots",
        "SPEC-04": "no line tells",
        "SPEC-08": "no line tells",
        "MET-02": "formats of a healthy line",
        "MET-03": "healthy lines",
        "MET-11": "a healthy line",
        "GPU-06": "a warning of healthy boots",
        "TUI-01": "not vLLM",
        "TUI-03": "healthy lines",
        "TUI-04": "healthy lines",
        "TUI-05": "not vLLM",
        "TUI-07": "lines that no vLLM writes",
        "TUI-09": "healthy lines",
    }
    unknown = {}
    for case in REPORTS:
        diagnosis = diagnosis_of(case["log"])
        fix = diagnosis.fixes[0].text if diagnosis.symptom else silent.get(case["id"], "")
        print(f"{case['id']:<10} {diagnosis.symptom or '-':<26} {fix[:80]}")
        if diagnosis.symptom is None:
            unknown[case["id"]] = fix
    assert unknown == silent
