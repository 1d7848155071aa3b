"""Ports, signals and processes that end without a word."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import added, do, reason, say

_DEFAULT_PORT = 8000
_EXIT = r"[Ee]xit(?:ed)?(?: with)?(?: code| status)?:? ?\(?"


def _port(seen: Evidence) -> int:
    told = seen.find(r"\(['\"][^'\"]*['\"], (\d{1,5})\)") or seen.arguments.number("port")
    return int(told) if told else _DEFAULT_PORT


def _port_fixes(seen: Evidence) -> list[Fix]:
    port = _port(seen)
    other = port + 1 if port < 65535 else port - 1
    return [
        Fix(text=f"Start it on another port: {other}.", set={"port": other}),
        Fix(text=f"Or end what has it: `ss -ltnp 'sport = :{port}'` names it; it may be an earlier server."),
    ]


_DMESG = Fix(text="`dmesg -T | tail -50` says whether the kernel killed it (Out of memory) or saw a segfault.")
_KILLED = (
    "it was killed, most often by the kernel because the machine's memory was full, or it crashed in native code"
)


def _gone(seen: Evidence) -> bool:
    """Whether a server that served was gone, and nobody saw its exit code."""
    return seen.boot.ready and "code" not in seen.groups


def _died_silently(seen: Evidence) -> str:
    if _gone(seen):
        return f"The server was gone of a sudden, and its log does not say why: {_KILLED}."
    told = f" with exit code {seen.groups['code']}" if "code" in seen.groups else ""
    return f"The server ended{told}, and its log does not say why."


def _vanished(seen: Evidence) -> bool:
    """Whether the log is whole, so that an engine without an exception of its own never wrote one."""
    return seen.has_head and seen.boot.ready


def _report_only(seen: Evidence) -> str:
    if _vanished(seen):
        return f"The engine's process was gone of a sudden, and nothing in this log says why: {_KILLED}."
    return "This is only the report that the engine failed; the cause is above it, and it is not in this text."


def _report_only_fixes(seen: Evidence) -> list[Fix]:
    if _vanished(seen):
        return [
            _DMESG,
            Fix(text="Nothing there: somebody ended it, and it may be started again as it was."),
        ]
    return [Fix(text="Give the whole log: the first exception of EngineCore or a Worker says why.")]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="port-in-use",
        patterns=(
            r"\[Errno (?:98|48|10048)\] ?[Aa]ddress already in use",
            r"\[Errno 98\] error while attempting to bind on address",
            r"[Aa]ddress already in use",
            r"[Pp]ort \d+ is (?:already )?in use",
            r"EADDRINUSE",
            r"port is already allocated",
        ),
        versions="any",
        explain=lambda seen: f"Port {_port(seen)} is taken by another program.",
        fixes=_port_fixes,
    ),
    Symptom(
        id="port-not-allowed",
        patterns=(r"port must be (?:in |between )?0-65535",),
        versions="any",
        explain=say("The command names a port above 65,535, which there is not."),
        fixes=do("Use a port from 1024 to 65535."),
    ),
    Symptom(
        id="port-not-allowed",
        patterns=(
            r"\[Errno 13\] Permission denied.{0,80}bind",
            r"\[Errno 99\] (?:Cannot assign requested address|error while attempting to bind)",
        ),
        versions="any",
        explain=say("The address is not one of this machine's, or the port is reserved for root."),
        fixes=do(Fix(text="Listen on this machine only.", set={"host": "127.0.0.1"}), "Use a port from 1024."),
    ),
    Symptom(
        id="port-not-allowed",
        patterns=(r"^(?:\w+\.)*(?:PermissionError|OSError|gaierror|OverflowError)\b",),
        frames=r":(?:create_server_socket|_create_server|create_server|bind)$",
        versions="any",
        explain=say("The server cannot listen where the command says: the address, or a port that needs root."),
        fixes=do(Fix(text="Listen on this machine only.", set={"host": "127.0.0.1"}), "Use a port from 1024."),
    ),
    Symptom(
        id="exit-137",
        patterns=(
            r"(?:killed|terminated) by signal 9\b",
            r"Exited \(137\)",
            rf"{_EXIT}(?:137|-9)\b",
            r"[Oo]ut of memory: Killed process",
            r"OOMKilled",
            r"oom-kill",
            r"^Killed$",
            r"\d+ +[Kk]illed {2,}",
            r"SIGKILL",
        ),
        versions="any",
        explain=say(
            "It was killed by signal 9. If nobody stopped it, the likely reason is that the host ran out of RAM; "
            "the log cannot say."
        ),
        fixes=do(
            "`journalctl -k` or `dmesg | grep -i oom` says whether the kernel did it; in a container look at its "
            "memory limit.",
            "Then free RAM, raise the limit or use a smaller checkpoint.",
        ),
    ),
    Symptom(
        id="bus-error",
        patterns=(
            r"killed by signal 7\b",
            r"Bus error",
            rf"{_EXIT}(?:135|-7)\b",
        ),
        versions="any",
        explain=say("It was killed by signal 7 (bus error): most often /dev/shm was full."),
        fixes=do("Start the container with --ipc=host or --shm-size=8g; look at `df -h /dev/shm`."),
    ),
    Symptom(
        id="illegal-instruction",
        patterns=(
            r"killed by signal 4\b",
            r"Illegal instruction",
            rf"{_EXIT}(?:132|-4)\b",
        ),
        versions="any",
        explain=say("The build uses instructions that this processor lacks."),
        fixes=do("Install a build for this processor (a CPU build without AVX-512), or compile vLLM here."),
    ),
    Symptom(
        id="segfault",
        patterns=(
            r"killed by signal (?:11|6)\b",
            r"Segmentation fault",
            rf"{_EXIT}(?:139|134|-11|-6)\b",
            r"Fatal Python error",
            r"SIGSEGV",
            r"Segfault encountered",
            r" \(core dumped\)",
            r"^Floating point exception",
            r"Signal: Segmentation fault",
            r"SIGABRT",
        ),
        versions="any",
        explain=say("It crashed in native code (CUDA, NCCL or a kernel library)."),
        fixes=do(
            "Look at `dmesg` for Xid lines.",
            added("enforce_eager", "Start it with --enforce-eager to see whether the graphs are at fault."),
            "Or with another vLLM version.",
        ),
    ),
    Symptom(
        id="segfault",
        reports=True,
        patterns=(r"terminate called after throwing an instance of",),
        versions="any",
        explain=say("It crashed in native code (CUDA, NCCL or a kernel library)."),
        fixes=do(
            "Look at `dmesg` for Xid lines.",
            added("enforce_eager", "Start it with --enforce-eager to see whether the graphs are at fault."),
            "Or with another vLLM version.",
        ),
    ),
    Symptom(
        id="terminated",
        patterns=(
            r"killed by signal (?:15|2|1|3)\b",
            rf"{_EXIT}(?:143|130|-15|-2)\b",
            r"^KeyboardInterrupt\b",
        ),
        versions="any",
        explain=say(
            "It was stopped by a signal: a user, a supervisor, a closed terminal or a container that went down."
        ),
        fixes=do("Start it again; start it through the cockpit or a service so that it outlives the terminal."),
    ),
    Symptom(
        id="worker-died",
        patterns=(r"worker (?P<name>\S+) ended without a word",),
        versions="0.8 to 0.33",
        explain=say(
            "The process of {name} ended without a word: killed for want of RAM, crashed in native code, or its GPU "
            "is lost.",
            "A worker's process ended without a word.",
        ),
        fixes=do("Look at `dmesg` for `Killed process` and Xid lines; in a container look at its memory limit."),
    ),
    Symptom(
        id="engine-silent",
        patterns=(r"the engine ended without a word",),
        versions="0.8 to 0.33",
        explain=lambda seen: (
            "The engine hangs or was killed before it could log anything: the report names no process that failed."
            + (" On WSL2 it is known to hang." if "wsl-pin-memory-warning" in seen.counts else "")
        ),
        fixes=do(
            "If VLLM::EngineCore still runs it hangs: end it, and start with a fuller log.",
            Fix(text="A fuller log.", env={"VLLM_LOGGING_LEVEL": "DEBUG"}, aid=True),
            "Otherwise `dmesg` says whether the kernel killed it.",
        ),
    ),
    Symptom(
        id="wrapper-error",
        patterns=(r"reported only: (?P<text>[^\n]*)",),
        versions="0.6 to 0.33",
        explain=_report_only,
        fixes=_report_only_fixes,
    ),
    Symptom(
        id="died-silently",
        patterns=(
            r"the server ended without a word(?:, exit code (?P<code>-?\d+))?",
            r"[Ss]erver process terminated unexpectedly",
        ),
        versions="any",
        explain=_died_silently,
        fixes=lambda seen: [
            *([_DMESG] if _gone(seen) else []),
            Fix(text="Start it in a terminal, or with a fuller log."),
            Fix(text="A fuller log.", env={"VLLM_LOGGING_LEVEL": "DEBUG"}, aid=True),
        ],
    ),
    Symptom(
        id="engine-missing",
        patterns=(
            r"No module named '?vllm'?$",
            r"vllm: (?:command )?not found",
            r"No such file or directory: '?[^\n']*vllm'?$",
            r"System requirements not met",
        ),
        versions="any",
        explain=say("The command found no vLLM."),
        fixes=do(
            "Name the engine (`cockpit engines` lists what is installed), or install one: `cockpit engines install`."
        ),
    ),
    Symptom(
        id="module-missing",
        patterns=(
            r"No module named '(?P<name>[\w.]+)'",
            r"ImportError: (?P<name>[^\n]{1,160}?)\.?(?:\n|$)",
        ),
        versions="any",
        explain=say(
            "vLLM's environment lacks a Python module or has it in a wrong version: {name}.",
            "vLLM's environment lacks a Python module or has it in a wrong version.",
        ),
        fixes=do("Install it into the environment of that vLLM, or install vLLM anew."),
    ),
    Symptom(
        id="open-files",
        patterns=(
            r"\[Errno 24\] Too many open files",
            r"OSError: \[Errno 24\]",
            r"Too many open files\. Communication with the workers",
            r"\[Errno 23\] Too many open files in system",
            r"\[Errno 11\]",
            r"can't start new thread",
            r"pthread_create failed",
            r"thread constructor failed",
            r"Resource temporarily unavailable",
        ),
        versions="any",
        explain=say("The server ran into a limit of open files or threads."),
        fixes=do(
            "Raise the limits (ulimit -n 65536, ulimit -u) of the shell or the service that starts it; a container "
            "has --pids-limit and --ulimit nofile=65536, a unit TasksMax= and LimitNOFILE=.",
        ),
    ),
    Symptom(
        id="file-missing",
        patterns=(r"^FileNotFoundError: (?:\[Errno 2\] )?No such file or directory: '(?P<file>[^'\n]+)'",),
        versions="any",
        explain=say(
            "There is no file {file}, which the command or a setting names.",
            "There is no such file as the command or a setting names.",
        ),
        fixes=do("Correct the path; in a container the file must be mounted, and the path is the container's."),
    ),
    Symptom(
        id="certificate",
        patterns=(r"\[SSL: ", r"SSLError", r"FileNotFoundError"),
        frames=r":(?:create_ssl_context|load_cert_chain|load_verify_locations)$",
        versions="any",
        explain=lambda seen: f"The server's certificate or its key cannot be used: {reason(seen)}.",
        fixes=do("Correct --ssl-certfile and --ssl-keyfile: both in PEM, of one pair, and readable."),
    ),
)
