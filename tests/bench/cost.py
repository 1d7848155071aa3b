"""What the screen costs: ``make bench`` prints it. Figures, not asserts: machines differ.

python tests/bench/cost.py [SCENE …] [--peers] [--write [FILE]]
python tests/bench/cost.py --server URL
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import inside
import peers
from beside import beside
from homes import REPOSITORY, compile_all, homes, serve, write_slugs
from measures import MIB, first_frame, repaint, rest
from report import Report
from terminal import Terminal

from cockpit.supervisor import store

COCKPIT = (sys.executable, "-m", "cockpit")
FIRST_TEXT = "/ filter"
ARROWS = ("\x1b[B", "\x1b[A") * 4
_HERE = Path(__file__).parent
Env = dict[str, str]
REPORT = Report()
line = REPORT.line


def opened(env: Env) -> Terminal:
    """The screen, a moment after its first frame."""
    screen = Terminal(COCKPIT, env)
    screen.until(FIRST_TEXT)
    screen.drain(2.0)
    return screen


def to_live(screen: Terminal) -> None:
    """The live screen of the first server."""
    screen.press("i")
    screen.press("\r")
    screen.until("up ")


def floor(env: Env) -> None:
    """What Textual itself costs: an app of one line."""
    argv = (sys.executable, str(_HERE / "one_line.py"))
    line("one line of Textual: first frame", first_frame(argv, env, FIRST_TEXT))
    with Terminal(argv, env) as screen:
        screen.until(FIRST_TEXT)
        line("one line of Textual: at rest", rest(screen, 5.0))


def empty(env: Env) -> None:
    """No server."""
    line("first frame", first_frame(COCKPIT, env, FIRST_TEXT), "0.40 s")
    with opened(env) as screen:
        line("keypress to repaint, catalog", repaint(screen, ARROWS), "30 ms")
        line("at rest, catalog, no server", rest(screen))


def one_server(env: Env) -> None:
    """The live screen of one server."""
    serve(slug="bench/one")
    with opened(env) as screen:
        line("at rest, catalog, one server", rest(screen))
        to_live(screen)
        line("at rest, live, one server", rest(screen), "2 %, 55 MB")
        line("keypress to repaint, live, charts on and off", repaint(screen, ("c", "c", "c") * 2), "30 ms")


def eight_gpus(env: Env) -> None:
    """Four servers on record, the live screen of one, with eight GPUs that a module simulates."""
    for number in range(4):
        serve(slug=f"bench/{number}")
    with opened({**env, "PYTHONPATH": f"{_HERE / 'simulated_nvml'}:{env['PYTHONPATH']}"}) as screen:
        screen.press("i")
        line("at rest, four servers, 8 simulated GPUs: list", rest(screen))
        screen.press("\r")
        screen.until("up ")
        line("at rest, four servers, 8 simulated GPUs: live", rest(screen))


def thousand_slugs(env: Env) -> None:
    """A catalog of a thousand."""
    write_slugs(env, 1000)
    line("first frame, 1,000 slugs", first_frame(COCKPIT, env, FIRST_TEXT, 3), "1.5 s")
    with opened(env) as screen:
        screen.drain(4.0)
        line("keypress to repaint, 1,000 slugs", repaint(screen, ARROWS), "30 ms")
        screen.press("/")
        line("keypress to repaint, filtering 1,000 slugs", repaint(screen, "model-9"), "100 ms")
        line("at rest, 1,000 slugs", rest(screen))


def flood(env: Env) -> None:
    """A server that logs 200,000 lines a minute; what its memory does every half minute of five."""
    serve("--lines-a-minute", "200000", slug="bench/flood")
    with opened(env) as screen:
        to_live(screen)
        line("live, 200,000 log lines a minute", rest(screen))
        costs = [screen.cost(30.0) for _ in range(10)]
        shares, sizes = [share for share, _, _ in costs], [f"{rss / MIB:.1f}" for _, rss, _ in costs]
        line(
            "the same, five minutes: CPU",
            f"mean {sum(shares) / len(shares) * 100:.2f} %, max {max(shares) * 100:.2f} %",
        )
        line("the same, RSS every half minute", f"{', '.join(sizes)} MiB", "bounded")


def ticks(_: Env) -> None:
    """Parsing and remembering, without a terminal."""
    size, least, median = inside.parse_times()
    line(f"one /metrics of {size:,} B parsed", f"CPU min {least * 1000:.1f} ms, median {median * 1000:.1f} ms")
    early, late, tick = inside.day_of_ticks()
    grown = f"RSS {early / MIB:.1f} MiB after a tenth of it, {late / MIB:.1f} MiB at its end"
    line("24 h of simulated ticks", f"{grown}, CPU {tick * 1000:.2f} ms a tick", "bounded")


def others(_: Env) -> None:
    """The peers, at the same server."""
    serve(slug="bench/peers")
    url = store.load_all()[0][0].url
    with tempfile.TemporaryDirectory() as folder:
        problem = peers.install(Path(folder))
        if problem is not None:
            line("vllmstat, nvitop", problem)
            return
        command = (f"{folder}/bin/vllmstat", "-u", url, "--no-gpu")
        for name, text in peers.measure(command, "╰", peers.environment()):
            line(f"{peers.VLLMSTAT}, {name}", text)
        fit = peers.nvitop(Path(folder))
        if isinstance(fit, str):
            line(peers.NVITOP, fit)
            return
        title, its = fit
        for name, text in peers.measure((f"{folder}/bin/nvitop",), "NVITOP", its):
            line(f"{title}, {name}", text)


SCENES: tuple[Callable[[Env], None], ...] = (floor, empty, one_server, eight_gpus, thousand_slugs, flood, ticks)


def main() -> None:
    """Every scene, or those named on the command line."""
    parser = argparse.ArgumentParser(description="What the screen costs.")
    parser.add_argument("scenes", nargs="*", choices=[[], *(scene.__name__ for scene in SCENES)], metavar="SCENE")
    parser.add_argument("--peers", action="store_true", help="measure vllmstat and nvitop too")
    parser.add_argument("--server", metavar="URL", help="only the live screen beside both peers, at this server")
    document = REPOSITORY / "docs" / "cost.md"
    parser.add_argument("--write", nargs="?", type=Path, const=document, metavar="FILE", help="write docs/cost.md")
    arguments = parser.parse_args()
    compile_all()
    if arguments.server is not None:
        with tempfile.TemporaryDirectory() as folder, homes(Path(folder)) as env:
            beside(arguments.server, env, line)
    else:
        measure(arguments.scenes, arguments.peers)
    if arguments.write is not None:
        REPORT.write(arguments.write, sys.argv[1:])


def measure(names: Sequence[str], with_peers: bool) -> None:
    """The scenes of these names, or all of them."""
    wanted = [scene for scene in SCENES if not names or scene.__name__ in names]
    for scene in (*wanted, *((others,) if with_peers else ())):
        with tempfile.TemporaryDirectory() as folder, homes(Path(folder)) as env:
            scene(env)


if __name__ == "__main__":
    main()
