"""Lines that only report a failure which happened elsewhere."""

from __future__ import annotations

from cockpit.supervisor.diagnose.pattern import Pattern

WRAPPERS = tuple(
    (pattern.literal, pattern)
    for pattern in map(
        Pattern,
        (
            "EngineDeadError",
            "EngineGenerateError",
            "[Ee]ngine core initialization failed",
            "[Ff]ailed core proc",
            "[Ff]ailed frontend proc",
            r"EngineCore (?:\w+ )?(?:failed|encountered|hit)",
            "WorkerProc (?:failed|hit|initialization failed)",
            "Engine process failed to start",
            r"Worker ?[Pp]roc\w* .*(?:died|failed)",
            "Executor failed",
            "Got fatal signal from worker processes",
            "Engine loop (?:is not running|has died)",
            "Background loop (?:has errored|is stopped)",
            "Engine background task failed",
            "ProcessRaisedException",
            r"Engine core proc\w* .*(?:died|failed)",
            "A[Pp][Ii] ?[Ss]erver process .*died",
            "AsyncLLM output_handler failed",
            r"(?:is already dead|has failed), terminating server process",
            "MQLLMEngine (?:process )?(?:is )?(?:died|dead)",
            r"Engine process \(pid \d+\) died",
            "Task finished unexpectedly",
            "leader process died",
            r"[Ss]ee (?:stack trace|root cause)(?: \(?above\)?)? for (?:the )?root cause",
            r"^Process \S+:\s*$",
        ),
    )
)
"""With the literal of each."""


def is_wrapper(text: str) -> bool:
    """Whether a line's text is such a report."""
    return any(literal in text and pattern.search(text) for literal, pattern in WRAPPERS)
