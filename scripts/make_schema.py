"""Write slugs/slug.schema.json, which editors check slug files against. Run it with the Python of .venv."""

from pathlib import Path

from cockpit.catalog.schema import slug_schema_text

target = Path(__file__).resolve().parents[1] / "slugs" / "slug.schema.json"
target.write_text(slug_schema_text(), encoding="utf-8")
