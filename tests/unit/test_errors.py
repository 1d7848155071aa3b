"""Errors as users see them."""

from __future__ import annotations

from cockpit.errors import CockpitError, FailedError


def test_title_detail_and_fix_make_one_line() -> None:
    error = CockpitError("the port is taken", "by python3", "Set another.")
    assert str(error) == "the port is taken: by python3. Set another."
    assert error.as_json() == {"title": "the port is taken", "detail": "by python3", "fix": "Set another."}


def test_a_title_alone_is_a_sentence() -> None:
    assert CockpitError("nothing is served").sentence() == "nothing is served."
    assert CockpitError("nothing is served.").sentence() == "nothing is served."


def test_wrong_usage_is_2_and_a_failure_is_1() -> None:
    assert CockpitError("x").exit_code == 2
    assert FailedError("x").exit_code == 1
