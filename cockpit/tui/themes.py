"""Themes from YAML files: the shipped ones, and the user's own over them."""

from __future__ import annotations

from pathlib import Path

import msgspec
from textual.color import Color, ColorParseError
from textual.theme import Theme

from cockpit import paths
from cockpit.errors import CockpitError
from cockpit.strict_yaml import decode

DEFAULT_THEME = "cockpit-dark"


class ThemeFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One theme file; colours as ``#rrggbb``."""

    name: str
    dark: bool
    primary: str
    secondary: str
    accent: str
    foreground: str
    background: str
    surface: str
    panel: str
    success: str
    warning: str
    error: str

    def to_theme(self) -> Theme:
        """As Textual wants it. Raises ColorParseError for a colour that is none."""
        fields = msgspec.structs.asdict(self)
        for name, value in fields.items():
            if name not in ("name", "dark"):
                Color.parse(value)
        return Theme(**fields)


def _read(file: Path) -> Theme:
    try:
        parsed, _ = decode(file.read_text(encoding="utf-8"), ThemeFile, str(file))
        return parsed.to_theme()
    except ColorParseError as error:
        raise CockpitError(f"{file}: {error}", fix="Write colours as #rrggbb.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise CockpitError(f"{file}: cannot be read", str(error)) from error


def load_themes() -> tuple[list[Theme], list[str]]:
    """Every usable theme, later files winning by name, and one sentence for each that is not usable."""
    themes: dict[str, Theme] = {}
    problems: list[str] = []
    for folder in (paths.shipped("themes"), paths.user_themes()):
        for file in sorted(folder.glob("*.yaml")) if folder.is_dir() else ():
            try:
                theme = _read(file)
            except CockpitError as error:
                problems.append(error.sentence())
            else:
                themes[theme.name] = theme
    return list(themes.values()), problems
