"""The one table of commands: keys, footer, palette and help are all drawn from it."""

from __future__ import annotations

import dataclasses

from textual.binding import Binding

from cockpit.launch.toggles import TOGGLES

EVERYWHERE = "everywhere"


@dataclasses.dataclass(frozen=True)
class Command:
    """One thing that a key does on one screen (or everywhere)."""

    id: str
    screen: str
    key: str
    action: str
    label: str
    """Footer and palette."""
    help: str
    """One sentence for the help screen."""
    footer: bool = True
    palette: bool = True


COMMANDS: tuple[Command, ...] = (
    Command("quit", EVERYWHERE, "q", "quit_asking", "quit", "Leave the cockpit; asks when servers are running."),
    Command("help", EVERYWHERE, "question_mark", "show_help", "help", "Show the keys of this screen."),
    Command("instances", EVERYWHERE, "i", "show_instances", "instances", "Every server on record."),
    Command(
        "fleet", EVERYWHERE, "F", "show_fleet", "fleet", "All servers at once, with their figures.", footer=False
    ),
    Command("catalog.open", "catalog", "enter", "open", "open", "The serve card, or the running instance.", False),
    Command("catalog.filter", "catalog", "slash", "filter", "filter", "Type words; every one must occur."),
    Command(
        "catalog.sort",
        "catalog",
        "s",
        "sort",
        "sort",
        "Sort by name, fit and quality, size, or context.",
    ),
    Command("catalog.new", "catalog", "n", "new", "new", "Write a slug for a checkpoint folder or repository."),
    Command("catalog.edit", "catalog", "e", "edit", "edit", "Open the slug's file in $EDITOR."),
    Command("catalog.refresh", "catalog", "r", "refresh_facts", "reload", "Read slugs, GPUs and engines again."),
    Command("catalog.stop", "catalog", "K", "stop", "stop", "Stop the selected slug's server.", footer=False),
    Command("card.start", "card", "S,enter", "start", "start", "Start the server with what is shown."),
    Command("card.stop", "card", "K", "stop", "stop", "Stop this slug's server; asks first.", footer=False),
    Command("card.copy", "card", "c", "copy", "copy", "Copy the command to the clipboard."),
    Command("card.reset", "card", "r", "reset", "reset", "Back to the slug's own values."),
    Command("card.up", "card", "up", "move(-1)", "up", "Previous toggle.", False, False),
    Command("card.down", "card", "down", "move(1)", "down", "Next toggle.", False, False),
    Command("card.less", "card", "left", "step(-1)", "less", "Previous value of the marked toggle.", False, False),
    Command("card.more", "card", "right", "step(1)", "more", "Next value of the marked toggle.", False, False),
    Command("card.apply1", "card", "1", "apply(1)", "fit 1", "Apply the first change that would fit.", False, False),
    Command("card.apply2", "card", "2", "apply(2)", "fit 2", "Apply the second one.", False, False),
    Command("card.apply3", "card", "3", "apply(3)", "fit 3", "Apply the third one.", False, False),
    Command("card.apply4", "card", "4", "apply(4)", "fit 4", "Apply the fourth one.", False, False),
    Command("card.next", "card", "pagedown", "page(1)", "more below", "Scroll the findings and the command down."),
    Command("card.previous", "card", "pageup", "page(-1)", "back up", "Scroll them up.", False, False),
    Command("card.back", "card", "escape", "back", "back", "Back to the catalog."),
    Command("instance.stop", "instance", "K", "stop", "stop", "Stop this server; asks first."),
    Command("instance.log", "instance", "L", "toggle_log", "log", "Give the log the whole screen, and back."),
    Command(
        "instance.wrap",
        "instance",
        "w",
        "wrap",
        "wrap log",
        "Wrap the long lines of the log, or cut them.",
        footer=False,
    ),
    Command(
        "instance.access",
        "instance",
        "a",
        "access",
        "access lines",
        "Show the log's lines of answered requests too, or hide them.",
        footer=False,
    ),
    Command("instance.charts", "instance", "c", "charts", "charts", "Charts of two minutes, of an hour, and none."),
    Command(
        "instance.card",
        "instance",
        "t",
        "card",
        "switches",
        "Open the card of its slug with the values it has, to change a switch and start anew.",
    ),
    Command("instance.copy", "instance", "y", "copy", "copy", "Copy the figures as text."),
    Command("instance.restart", "instance", "S", "restart", "again", "Open the card of a server that has died."),
    Command("instance.fix", "instance", "f", "fix", "fix", "Start a dead server again with what its diagnosis sets."),
    Command("instance.back", "instance", "escape", "back", "catalog", "Back to the catalog."),
    Command("instances.open", "instances", "enter", "open", "open", "Open the marked server.", footer=False),
    Command("instances.stop", "instances", "K", "stop", "stop", "Stop the marked server; asks first."),
    Command("fleet.open", "fleet", "enter", "open", "open", "Open the marked server's figures.", footer=False),
    Command("fleet.stop", "fleet", "K", "stop", "stop", "Stop the marked server; asks first."),
    Command("fleet.copy", "fleet", "y", "copy", "copy", "Copy the table as text."),
    Command("fleet.back", "fleet", "escape", "back", "back", "Back."),
    Command("instances.back", "instances", "escape", "back", "back", "Back."),
)

START_STOP_QUIT = {"S": ("start", "restart"), "K": ("stop",), "q": ("quit_asking",)}
"""Keys that start, stop or quit mean the same on every screen."""


_AT_ONCE = ("card.", "catalog.filter")
"""Commands that act before the next key is looked at: one of them opens a box that the next is typed into."""


def bindings(screen: str) -> list[Binding]:
    """Textual bindings of one screen, or of EVERYWHERE; ids make them remappable."""
    return [
        Binding(
            command.key,
            command.action,
            command.label,
            show=command.footer,
            id=command.id,
            key_display=key_text(command.key),
            tooltip=command.help,
            priority=command.id.startswith(_AT_ONCE),
        )
        for command in COMMANDS
        if command.screen == screen
    ]


def toggle_bindings() -> list[Binding]:
    """One small letter a toggle, on the serve card."""
    return [
        Binding(
            toggle.key, f"press('{toggle.id}')", toggle.label, show=False, priority=True, id=f"toggle.{toggle.id}"
        )
        for toggle in TOGGLES
    ]


def commands_for(screen: str) -> list[Command]:
    """Commands of one screen and those that work everywhere, in the table's order."""
    return [command for command in COMMANDS if command.screen in (screen, EVERYWHERE)]


_PAGES = {"pagedown": "pgdn", "pageup": "pgup"}


def key_text(key: str) -> str:
    """A key as people write it."""
    names = {
        "question_mark": "?",
        "slash": "/",
        "enter": "↵",
        "escape": "esc",
        "S,enter": "S ↵",
        "pagedown": "pgdn",
        "pageup": "pgup",
    }
    arrows = {"up": "↑", "down": "↓", "left": "←", "right": "→"}
    return names.get(key) or arrows.get(key) or key
