"""The keys in force: the table's, or those of the user's config. A keymap that would mislead is refused."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import NoReturn

from textual.keys import KEY_NAME_REPLACEMENTS, Keys, _character_to_key

from cockpit.errors import CockpitError
from cockpit.launch.toggles import TOGGLES, Toggle
from cockpit.tui.commands import COMMANDS, EVERYWHERE, START_STOP_QUIT, commands_for, key_text

Keymap = Mapping[str, str]
"""Command id → keys, separated by commas, as in the config."""

_MODIFIERS = {"ctrl", "alt", "shift", "super", "hyper", "meta"}
_NAMED = {key.value for key in Keys} | set(KEY_NAME_REPLACEMENTS.values())
_TAKEN = {
    "ctrl+p": "it opens the palette",
    "ctrl+q": "it ends the program",
    "ctrl+c": "it belongs to the terminal",
    "ctrl+h": "terminals send it for backspace",
    "ctrl+i": "terminals send it for tab",
    "ctrl+m": "terminals send it for enter",
    "ctrl+j": "terminals send it for enter",
}


def toggle_id(toggle: Toggle) -> str:
    """The name by which the config remaps a toggle's key."""
    return f"toggle.{toggle.id}"


def _split(text: str) -> tuple[str, ...]:
    words = ["comma" if word == "," else word for word in ([text] if text == "," else text.split(","))]
    return tuple(_character_to_key(word.strip()) if len(word.strip()) == 1 else word.strip() for word in words)


def keys_of(name: str, default: str, keymap: Keymap) -> tuple[str, ...]:
    """The keys that a command has, as Textual names them."""
    return _split(keymap.get(name, default))


def shown_key(name: str, default: str, keymap: Keymap) -> str:
    """The same as people write them."""
    return " ".join(key_text(key) for key in keys_of(name, default, keymap))


def toggle_key(toggle: Toggle, keymap: Keymap) -> str:
    """A toggle's key as people write it."""
    return shown_key(toggle_id(toggle), toggle.key, keymap)


def _in_force(screen: str, keymap: Keymap) -> Iterator[tuple[str, str, str]]:
    """Key, command id and action of everything that a screen has."""
    named = [(command.id, command.key, command.action) for command in commands_for(screen)]
    if screen == "card":
        named += [(toggle_id(toggle), toggle.key, "press") for toggle in TOGGLES]
    for name, default, action in named:
        for key in keys_of(name, default, keymap):
            yield key, name, action


def _refuse(title: str, fix: str) -> NoReturn:
    raise CockpitError(f"config.yaml {title}", fix=fix)


def _is_key(key: str) -> bool:
    *modifiers, base = key.split("+") if key != "+" else [key]
    if not set(modifiers) <= _MODIFIERS:
        return False
    if len(base) == 1 or base in _NAMED:
        return True
    try:
        unicodedata.lookup(base.replace("_", " "))
    except KeyError:
        return False
    return True


def _check_names(keymap: Keymap) -> None:
    known = {command.id for command in COMMANDS} | {toggle_id(toggle) for toggle in TOGGLES}
    for name, text in keymap.items():
        if name not in known:
            fix = f"The commands are: {', '.join(sorted(known))}."
            _refuse(f"remaps the key of {name!r}, which is no command", fix)
        for key in _split(text):
            if not _is_key(key):
                _refuse(f"gives {name} the key {key[:40]!r}, which is no key", "Write one such as x, f5 or ctrl+t.")
            if key in _TAKEN:
                _refuse(f"gives {name} the key {key}, which cannot be used: {_TAKEN[key]}", "Give it another key.")


def _check_clashes(screens: set[str], keymap: Keymap) -> None:
    for screen in sorted(screens):
        owners: dict[str, str] = {}
        for key, name, _ in _in_force(screen, keymap):
            other = owners.setdefault(key, name)
            if other != name:
                first, second = sorted((name, other), key=lambda one: one not in keymap)
                title = f"gives {first} and {second} the same key on the {screen} screen: {key_text(key)}"
                _refuse(title, f"Remap one of the two under keys, such as `{first}: f5`.")


def _check_meanings(screens: set[str], keymap: Keymap) -> None:
    """Keys that start, stop or quit somewhere mean nothing else anywhere."""
    used = [(key, name, action) for screen in sorted(screens) for key, name, action in _in_force(screen, keymap)]
    for actions in START_STOP_QUIT.values():
        # Enter starts on the card and opens elsewhere: the one key that people know what to expect of.
        grave = {key: name for key, name, action in used if action in actions and key != "enter"}
        for key, name, action in used:
            if key in grave and action not in actions:
                title = f"gives {name} the key {key_text(key)}, which is that of {grave[key]} on another screen"
                _refuse(title, "Keys that start, stop or quit mean the same everywhere: choose another one.")


def check_keymap(keymap: Keymap) -> None:
    """Raise CockpitError for commands and keys that do not exist, and for two commands on one key.

    Textual would ignore the first and let the last of the second win, both silently.
    """
    _check_names(keymap)
    screens = {command.screen for command in COMMANDS} - {EVERYWHERE}
    _check_clashes(screens, keymap)
    _check_meanings(screens, keymap)
