"""What a log went through before somebody asks about it changes nothing: containers, loggers, editors, reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fixture_yaml import read_yaml

from cockpit.supervisor.diagnose.files import diagnose_lines
from cockpit.supervisor.diagnose.types import Diagnosis
from cockpit.supervisor.logfile import clean

FIXTURES = Path(__file__).parent / "fixtures"
LOGS: list[str] = [
    case["log"]
    for name in ("reports", "field", "issues", "rewordings")
    for case in read_yaml(FIXTURES / f"{name}.yaml")
]
LAST_WORDS = """
[rank0]:[W602 10:02:01.1 ProcessGroupNCCL.cpp:1496] Warning: destroy_process_group() was not called before exit
/usr/lib/python3.12/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 1
  warnings.warn("""


def each(form: Callable[[str], str]) -> Callable[[str], str]:
    return lambda log: "\n".join(map(form, log.split("\n")))


def _docker(line: str) -> str:
    return json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2026-01-01T00:00:00Z"})


FORMS: dict[str, Callable[[str], str]] = {
    "carriage returns": each("{}\r".format),
    "trailing blanks": each("{}      ".format),
    "blank lines between": each("{}\n".format),
    "indented": each("    {}".format),
    "indented by tabs": each("\t{}".format),
    "fenced": "```text\n{}\n```\n".format,
    "quoted": each("> {}".format),
    "docker's JSON": each(_docker),
    "docker compose": each("vllm-server-1  | {}".format),
    "kubernetes": each("2026-10-03T09:11:40.123456789Z stderr F {}".format),
    "journald": each("Aug 19 18:34:30 host vllm[8707]: {}".format),
    "a logger's stamp": each("[2026-06-12 12:13:18] {}".format),
    "pm2": each("0|vllm  | {}".format),
    "what exits say last": lambda log: log + LAST_WORDS,
}


def diagnosis_of(log: str) -> Diagnosis:
    return diagnose_lines([clean(line, 8000) for line in log.split("\n")])


@pytest.mark.parametrize("form", list(FORMS))
def test_a_diagnosis_is_the_same_in_every_form_of_its_log(form: str) -> None:
    other = {}
    for log in LOGS:
        plain, formed = diagnosis_of(log), diagnosis_of(FORMS[form](log))
        if (plain.symptom, plain.healthy) != (formed.symptom, formed.healthy):
            other[log[:200]] = (plain.symptom, formed.symptom)
    assert not other
