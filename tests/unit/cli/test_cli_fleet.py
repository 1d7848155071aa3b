"""The rows of several servers."""

from __future__ import annotations

import pytest

from cockpit.cli.fleet import Server, row_of, without_user


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://me:s3cret@host:8000/a@b", "http://host:8000/a@b"),
        ("https://[::1]:9/x", "https://[::1]:9/x"),
        ("https://a@b@[::1]/", "https://[::1]/"),
    ],
)
def test_a_user_and_password_are_no_part_of_what_is_shown(given, shown):
    assert without_user(given) == shown
    assert row_of(Server(url=given, error="no"))[0] == shown.partition("://")[2]
