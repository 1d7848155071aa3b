"""Small questions over the screen: each answer has a key, the first one is the default."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from cockpit.launch.toggles import TOGGLES
from cockpit.supervisor.again import Change
from cockpit.supervisor.others import Other
from cockpit.tui.commands import commands_for
from cockpit.tui.content import Row, printable, rows_content
from cockpit.tui.keymap import Keymap, keys_of, shown_key, toggle_key

Answer = tuple[str, str, str]
"""Id, key, label."""


class Question(ModalScreen[str | None]):
    """Title, body, and answers; Escape is None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "stay", show=False)]

    def __init__(self, title: str, body: str, answers: list[Answer]) -> None:
        super().__init__()
        self._title = title
        self._body: str | Content = body
        self._answers = answers

    def compose(self) -> ComposeResult:
        """The question and its buttons."""
        with Vertical(id="question"):
            yield Static(self._title, id="question-title", markup=False)
            yield Static(self._body, id="question-body", markup=False)
            with Horizontal(id="question-answers"):
                for answer_id, key, label in self._answers:
                    # The button's label is our own text; outside text stays in the body, which has no markup.
                    yield Button(f"{key} {label}", id=f"answer-{answer_id}", compact=True)

    def on_mount(self) -> None:
        """Mark the default."""
        self.query(Button).first().focus()

    def on_key(self, event: events.Key) -> None:
        """The key of an answer, or the arrows between them."""
        for answer_id, key, _ in self._answers:
            if event.key == key:
                event.stop()
                self.dismiss(answer_id)
                return
        if event.key in ("left", "right"):
            event.stop()
            (self.focus_previous if event.key == "left" else self.focus_next)()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """A click, or Enter on the marked answer."""
        self.dismiss((event.button.id or "").removeprefix("answer-") or None)


class FixQuestion(Question):
    """What a fix changes of the command, old and new; the default starts it."""

    def __init__(self, name: str, why: str, changes: tuple[Change, ...], findings: list[str]) -> None:
        answers = [("start", "y", "start again"), ("leave", "n", "leave it")]
        super().__init__(f"Start {name} again?", "", answers)
        signs = [(sign, text) for change in changes for sign, text in (("-", change.before), ("+", change.after))]
        rows: list[Row] = [[(why, "")], []]
        rows += [[(f"{sign} {text}", "bad" if sign == "-" else "good")] for sign, text in signs if text is not None]
        rows += [[(text, "warn")] for text in findings]
        self._body = rows_content([*rows, [], [("The rest of the command stays as it was.", "dim")]])


class TextQuestion(ModalScreen[str | None]):
    """A question with a line to type; Escape is None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "leave", show=False)]

    def __init__(self, title: str, body: str, placeholder: str, value: str = "") -> None:
        super().__init__()
        self._title = title
        self._body = body
        self._placeholder = placeholder
        self._value = value

    def compose(self) -> ComposeResult:
        """The question and its line."""
        with Vertical(id="question"):
            yield Static(self._title, id="question-title", markup=False)
            yield Static(self._body, id="question-body", markup=False)
            yield Input(self._value, placeholder=self._placeholder, id="question-text")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter answers; an empty line is no answer."""
        self.dismiss(event.value.strip() or None)


def new_slug_question(typed: str = "", wrong: str = "") -> TextQuestion:
    """Which checkpoint? ``wrong`` says what is the matter with what was ``typed`` before."""
    body = "Its folder, its config.json, or a repository in the Hugging Face cache.\n↵ writes the slug · esc leaves"
    title = "A slug for a checkpoint"
    return TextQuestion(title, f"✕ {printable(wrong)}\n\n{body}" if wrong else body, "/models/… or owner/name", typed)


def quit_question(names: list[str]) -> Question:
    """What becomes of the running servers?"""
    count = "1 server is" if len(names) == 1 else f"{len(names)} servers are"
    return Question(
        f"{count} running",
        f"{', '.join(names)}\nLeft running, they go on without the cockpit; `cockpit` shows them again.",
        [("leave", "l", "leave running"), ("stop", "s", "stop and quit"), ("stay", "n", "stay")],
    )


def stop_question(name: str, detail: str) -> Question:
    """Really stop it?"""
    return Question(f"Stop {name}?", detail, [("keep", "n", "let it run"), ("stop", "y", "stop it")])


def other_stop_question(other: Other) -> Question:
    """Really stop what no cockpit started? Names its process and its command."""
    if other.kind == "orphans":
        body = f"Their server is gone, and they hold its memory:\n{other.what}"
        return Question(f"End {other.name}?", body, [("keep", "n", "leave them"), ("stop", "y", "end them")])
    body = f"No cockpit started it. It is process {other.pid}:\n{other.what:.300}\nRequests in flight are cut off."
    return Question(f"Stop {other.name}?", body, [("keep", "n", "let it run"), ("stop", "y", "stop it")])


class HelpScreen(ModalScreen[None]):
    """The keys of the screen below, drawn from the table of commands."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "close", show=False)]

    def __init__(self, screen_name: str, keymap: Keymap) -> None:
        super().__init__()
        self._screen_name = screen_name
        self._keymap = keymap

    def compose(self) -> ComposeResult:
        """One line a key, as the config has it."""
        rows: list[Row] = [
            [(f" {shown_key(command.id, command.key, self._keymap):>4}  ", "key"), (command.help, "")]
            for command in commands_for(self._screen_name)
        ]
        if self._screen_name == "card":
            rows.append([(" toggles", "title")])
            rows += [[(f" {toggle_key(toggle, self._keymap):>4}  ", "key"), (toggle.label, "")] for toggle in TOGGLES]
        rows.append([("ctrl+p  ", "key"), ("Every command by name.", "")])
        with VerticalScroll(id="help"):
            yield Static(f"keys of the {self._screen_name} screen", id="question-title", markup=False)
            yield Static(rows_content(rows), markup=False)

    def on_key(self, event: events.Key) -> None:
        """The key that opened it closes it."""
        if event.key in keys_of("help", "question_mark", self._keymap):
            event.stop()
            self.dismiss()
