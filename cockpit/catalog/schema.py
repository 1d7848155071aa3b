"""The JSON Schema of a slug file, for editors: generated from the structs, never written by hand."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from cockpit.catalog.slug import Slug


def slug_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of one slug file."""
    schema = msgspec.json.schema(Slug)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cockpit slug",
        **schema,
    }


def slug_schema_text() -> str:
    """The schema as the text of ``slugs/slug.schema.json``."""
    return json.dumps(slug_schema(), indent=2, sort_keys=True) + "\n"
