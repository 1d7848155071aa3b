"""Files of the weights that are not whole, not there, or not what their names say."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Symptom
from cockpit.supervisor.diagnose.words import do, say

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="weights-incomplete",
        patterns=(r"Weight files referenced in index but missing: ?(?P<files>[^\n]{1,300})",),
        versions="any",
        explain=say(
            "The index names files of weights that are not there: {files}. The download is not whole.",
            "The index names files of weights that are not there: the download is not whole.",
        ),
        fixes=do(
            "Download the model again, it goes on where it ended: `hf download REPO` (--local-dir for a folder).",
            "A folder that links into a cache needs the cache mounted as well.",
        ),
    ),
    Symptom(
        id="weights-broken",
        patterns=(r"File does not contain tensor (?P<name>\S+)",),
        versions="any",
        explain=say(
            "The index says that a file has {name}, and it does not: index and files are of different checkpoints.",
            "Index and files of the weights are of different checkpoints.",
        ),
        fixes=do("Download the index (model.safetensors.index.json) and its files again, from one revision."),
    ),
    Symptom(
        id="weights-broken",
        patterns=(r"416 Client Error: Requested Range Not Satisfiable",),
        versions="any",
        explain=say("A part of a file from an earlier download is longer than the file: the download cannot go on."),
        fixes=do("Delete the *.incomplete files of the model in the cache (`hf cache`, HF_HOME), and start again."),
    ),
    Symptom(
        id="weights-broken",
        patterns=(r"^MemoryError\b",),
        frames=r":(?:parse_safetensors_file_metadata|get_safetensors_\w+)$",
        versions="0.11 to 0.33",
        explain=say(
            "A file of the weights is not what its name says, most likely a Git LFS pointer: vLLM read its first "
            "bytes as the length of a header, which no memory holds."
        ),
        fixes=do("Get the files themselves: `git lfs pull` in the folder, or `hf download REPO --local-dir FOLDER`."),
    ),
    Symptom(
        id="weights-broken",
        patterns=(
            r"SafetensorError",
            r"Consistency check failed: file should be of size",
            r"Error while deserializing header",
            r"MetadataIncompleteBuffer",
            r"InvalidHeader",
            r"HeaderToo(?:Large|Small)",
            r"unexpected EOF, expected \d+ more bytes",
            r"PytorchStreamReader failed",
            r"git-lfs\.github\.com/spec",
            r"invalid load key, '",
        ),
        versions="any",
        explain=say("A file of the weights is broken or not whole: an interrupted download, or a Git LFS pointer."),
        fixes=do("Download the file again; compare its size with the repository's."),
    ),
)
