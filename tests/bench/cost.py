"""What the screen costs: ``make bench`` prints it. Figures, not asserts: machines differ."""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from homes import homes, serve, write_slugs
from terminal import Terminal

COCKPIT = (sys.executable, "-m", "cockpit")
FIRST_TEXT = "/ filter"
ARROWS = ("\x1b[B", "\x1b[A") * 4
_REST_SECONDS = 20.0
_SETTLE_SECONDS = 6.0
MIB = 1 << 20


def line(name: str, text: str) -> None:
    """One figure."""
    print(f"{name:<52} {text}", flush=True)


def first_frame(env: dict[str, str], runs: int = 7) -> str:
    """Start to the first complete screen, warm."""
    times = []
    for _ in range(runs):
        with Terminal(COCKPIT, env) as screen:
            times.append(screen.until(FIRST_TEXT))
    return f"min {min(times):.3f} s  median {statistics.median(times):.3f} s  of {runs}"


def repaint(screen: Terminal, keys: Sequence[str]) -> str:
    """Keypress to the first byte of the repaint."""
    times = [took for key in keys if (took := screen.press(key)) is not None]
    if not times:
        return "nothing was repainted"
    return f"median {statistics.median(times) * 1000:.1f} ms  max {max(times) * 1000:.1f} ms  of {len(times)}"


def rest(screen: Terminal, seconds: float = _REST_SECONDS) -> str:
    """CPU, memory and output of a screen that nobody touches."""
    screen.drain(_SETTLE_SECONDS)
    share, rss, written = screen.cost(seconds)
    return f"CPU {share * 100:.2f} %  RSS {rss / MIB:.1f} MiB  {written:,} B/s written"


def empty(env: dict[str, str]) -> None:
    """No server."""
    line("first frame", first_frame(env))
    with Terminal(COCKPIT, env) as screen:
        screen.until(FIRST_TEXT)
        screen.drain(2.0)
        line("keypress to repaint, catalog", repaint(screen, ARROWS))
        line("at rest, catalog, no server", rest(screen))


def one_server(env: dict[str, str]) -> None:
    """The live screen of one server."""
    serve(slug="bench/one")
    with Terminal(COCKPIT, env) as screen:
        screen.until(FIRST_TEXT)
        screen.drain(2.0)
        line("at rest, catalog, one server", rest(screen))
        screen.press("i")
        screen.press("\r")
        screen.until("up ")
        line("at rest, live, one server", rest(screen))


def four_servers(env: dict[str, str]) -> None:
    """Four servers on record, the live screen of one."""
    for number in range(4):
        serve(slug=f"bench/{number}")
    with Terminal(COCKPIT, env) as screen:
        screen.until(FIRST_TEXT)
        screen.drain(2.0)
        screen.press("i")
        line("at rest, instances, four servers", rest(screen))
        screen.press("\r")
        screen.until("up ")
        line("at rest, live, four servers", rest(screen))


def thousand_slugs(env: dict[str, str]) -> None:
    """A catalog of a thousand."""
    write_slugs(env, 1000)
    line("first frame, 1,000 slugs", first_frame(env, 3))
    with Terminal(COCKPIT, env) as screen:
        screen.until(FIRST_TEXT)
        screen.drain(4.0)
        line("keypress to repaint, 1,000 slugs", repaint(screen, ARROWS))
        screen.press("/")
        line("keypress to repaint, filtering 1,000 slugs", repaint(screen, "model-9"))
        line("at rest, 1,000 slugs", rest(screen))


def flood(env: dict[str, str]) -> None:
    """A server that logs 200,000 lines a minute."""
    serve("--lines-a-minute", "200000", slug="bench/flood")
    with Terminal(COCKPIT, env) as screen:
        screen.until(FIRST_TEXT)
        screen.drain(2.0)
        screen.press("i")
        screen.press("\r")
        screen.until("up ")
        line("live, 200,000 log lines a minute", rest(screen))


SCENES: tuple[Callable[[dict[str, str]], None], ...] = (empty, one_server, four_servers, thousand_slugs, flood)


def main() -> None:
    """Every scene, or those named on the command line."""
    wanted = set(sys.argv[1:])
    for scene in SCENES:
        if not wanted or scene.__name__ in wanted:
            with tempfile.TemporaryDirectory() as folder, homes(Path(folder)) as env:
                scene(env)


if __name__ == "__main__":
    main()
