"""The hub and what is asked of it: models that are not there, access that is not given, downloads that break off."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import do, say, without


def _missing(seen: Evidence) -> str:
    file = seen.groups.get("file", "").strip(".'`\"(")
    if file:
        where = seen.groups.get("model") or str(seen.arguments.get("model") or "the model's folder or repository")
        return f"{where} has no {file}: it is there, and is no checkpoint (one of its folders, GGUF, an adapter?)."
    model = seen.groups.get("model") or str(seen.arguments.get("model") or "")
    if "Cannot find any model weights" in seen.incident.text:
        return f"{model or 'The model'} is there, and has no weights that vLLM reads (safetensors, bin or pt files)."
    if re.search("No supported config format|Could not detect config format", seen.incident.text):
        return f"{model or 'The model'} has no configuration that vLLM reads (config.json, or Mistral's params.json)."
    if _GGUF_OF_REPO.search(model):
        return f"{model} names a GGUF file in a repository, which this vLLM takes for a repository's name."
    if "local directory specified" in seen.incident.text:
        return f"{model or 'What the command names'} is no folder with a config.json, and no repository of that name."
    if model.startswith(("/", ".", "~")) or model.count("/") > 1:
        return f"There is no folder {model}: vLLM took the path for the name of a repository."
    return f"There is no model {model or 'of that name'}: neither a folder here nor a repository on the hub."


_GGUF_OF_REPO = re.compile(r"^[\w.-]+/[\w.-]+:\w+$")


def _missing_fixes(seen: Evidence) -> list[Fix]:
    if _GGUF_OF_REPO.search(seen.groups.get("model", "")):
        return [
            Fix(text="Use a safetensors checkpoint of the model: AutoRound, AWQ or GPTQ for 4 bits, FP8 for 8."),
            Fix(
                text="Or serve the file with llama.cpp, or by its path (and --tokenizer) with a vLLM that reads GGUF."
            ),
        ]
    if "Cannot find any model weights" in seen.incident.text:
        return [
            without("load_format", ": it reads only one kind of files, and vLLM sees what the folder has"),
            Fix(text="Download the model again, it goes on where it ended: `hf download REPO`."),
            Fix(text="Correct the path, or mount the folder that has the files into the container."),
        ]
    diffusion = Fix(text="A folder with model_index.json is a model for images, which vLLM-Omni serves.")
    return [
        Fix(
            text="Correct the path, or mount the folder into the container; `cockpit inspect PATH` says whether "
            "a checkpoint is there."
        ),
        *([diffusion] if "local directory specified" in seen.incident.text else []),
        Fix(text="A private repository needs HF_TOKEN: without it the hub says that there is none."),
    ]


_INVALID = re.compile(
    r"Invalid (?:username or password|user token|credentials in Authorization)|token .{0,40}expired"
)


def _token_fixes(seen: Evidence) -> list[Fix]:
    if _INVALID.search(seen.incident.text):
        return [
            Fix(text="Make a new token on huggingface.co/settings/tokens and set HF_TOKEN to it (`hf auth login`)."),
            Fix(text="A public model loads without one: remove the old token.", env={"HF_TOKEN": None}),
        ]
    return [
        Fix(
            text="Accept the licence on the model's page, and set HF_TOKEN in the environment that the server "
            "starts from."
        )
    ]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="weights-missing",
        patterns=(
            r"[Nn]o such file or directory: ?['\"]?(?P<file>[^'\"\n]*\.(?:safetensors|bin|pt|gguf))\b",
            r"-of-\d{5}\.safetensors[^\n]{0,80}(?:missing|not found|does not exist)",
        ),
        versions="any",
        explain=say(
            "A file of the weights is missing: {file}.",
            "A file of the weights is missing.",
        ),
        fixes=do(
            "Download it again: the download broke off, or the index names a file of another revision.",
            "The hub's cache links its files: mount all of HF_HOME into a container, not one snapshot of it.",
        ),
    ),
    Symptom(
        id="weights-pickled",
        patterns=(r"Weights only load failed", r"UnpicklingError: Unsupported"),
        versions="0.6 to 0.33",
        explain=say("The weights are pickled Python objects that PyTorch does not load without trusting them."),
        fixes=do("Use a checkpoint in safetensors, or convert it."),
    ),
    Symptom(
        id="config-without-type",
        patterns=(
            r"Unrecognized model in (?P<model>\S+?)\.? Should have a `?model_type`? key",
            r"Unrecognized model in (?P<model>\S+)",
        ),
        versions="0.2 to 0.33",
        explain=say(
            "The config.json of {model} names no model_type: it is not a model's, or it is not whole.",
            "The config.json names no model_type: it is not a model's, or it is not whole.",
        ),
        fixes=do(
            "Compare it with the original model's config.json, or download it again.",
            "A checkpoint in Mistral's own format (params.json) needs --config-format mistral --load-format mistral.",
        ),
    ),
    Symptom(
        id="gated-repo",
        patterns=(
            r"trying to access a gated repo",
            r"Cannot access gated repo for url",
            r"GatedRepoError",
            r"Access to model (?P<model>\S+) is restricted",
            r"not in the authorized list",
            r"access to public gated repositories",
            r"Your request to access model (?P<model>\S+) (?:is|has)",
            r"Invalid (?:username or password|user token|credentials in Authorization header)",
        ),
        versions="any",
        explain=lambda seen: (
            "The Hugging Face token is invalid or expired: with it the hub refuses public models too."
            if _INVALID.search(seen.incident.text)
            else "The token is known, but its account may not read this model: the licence is not accepted, or "
            "the token lacks the scope for gated repositories."
            if "403" in seen.incident.text
            or "authorized list" in seen.incident.text
            or "awaiting" in seen.incident.text
            else "The model's repository is gated, and the server had no valid Hugging Face token."
        ),
        fixes=_token_fixes,
    ),
    Symptom(
        id="revision",
        patterns=(
            r"Revision Not Found for url: https?://\S+?/(?:resolve|raw|tree|revision)/(?P<revision>[^/\s]+)",
            r"Invalid rev id: (?P<revision>\S+)",
            r"RevisionNotFoundError",
        ),
        versions="any",
        explain=say(
            "The repository has no revision {revision}: no branch, tag or commit of that name.",
            "The repository does not have the revision that the command asks for.",
        ),
        fixes=do(
            without("revision", ": the main branch counts"),
            "Correct --revision (--tokenizer-revision, --code-revision): the repository's Files page lists branches "
            "and tags.",
        ),
    ),
    Symptom(
        id="model-not-found",
        patterns=(
            r"Repo id must (?:be in the form|use alphanumeric chars)[^\n]*?: ?'(?P<model>[^'\n]+)'(?:\.|$| )",
            r"Repo id must (?:be in the form|use alphanumeric chars)",
            r"(?P<model>\S+) is not a local folder and is not a valid model identifier",
            r"Repository Not Found for url",
            r"RepositoryNotFoundError",
            r"Invalid repository ID or local directory specified: ?'?(?P<model>[^'\n]*)",
            r"Cannot find any model weights with [`'\"]?(?P<model>[^`'\"\n]*)",
            r"[Nn]o such file or directory: ?['\"](?P<model>[^'\"\n]*?)/config\.json",
            r"(?P<model>\S+) does not appear to have a file named (?P<file>config\.json)",
            r"does not appear to have (?:a file named|files named) (?P<file>(?:pytorch_model|model|adapter_\w+)\S*)",
            r"Can't load the configuration of ['\"](?P<model>[^'\"]+)",
            r"No supported config format found in (?P<model>\S+?)\.?(?:\s|$)",
            r"Could not detect config format for no config file found",
            r"[Mm]odel path .{0,200}(?:does not exist|not found)",
        ),
        versions="any",
        explain=_missing,
        fixes=_missing_fixes,
    ),
    Symptom(
        id="hub-limited",
        patterns=(r"429 (?:Client Error|Too Many Requests)", r"Too Many Requests for url", r"HTTP Error 429"),
        versions="any",
        explain=say("The hub refuses more requests for a while."),
        fixes=do("Wait some minutes and start again; set HF_TOKEN, with which the limits are wider."),
    ),
    Symptom(
        id="proxy",
        patterns=(
            r"Using SOCKS proxy, but the 'socksio' package is not installed",
            r"Missing dependencies for SOCKS support",
            r"Tunnel connection failed: (?P<code>\d{3})",
            r"Unknown scheme for proxy URL",
            r"Proxy Authentication Required",
            r"Cannot connect to proxy",
        ),
        versions="any",
        explain=say(
            "A proxy is set (HTTPS_PROXY, ALL_PROXY) that refuses the connection ({code}).",
            "A proxy is set (HTTPS_PROXY, ALL_PROXY) that cannot be used as it is.",
        ),
        fixes=do(
            "Correct or unset HTTP_PROXY, HTTPS_PROXY and ALL_PROXY (and in lower case); "
            "NO_PROXY=localhost,127.0.0.1 keeps the server's own addresses out.",
            "For a SOCKS proxy: `uv pip install 'httpx[socks]' 'requests[socks]'` into vLLM's environment.",
            "Or give the path of a folder that has the model.",
        ),
    ),
    Symptom(
        id="hub-offline",
        patterns=(
            r"outgoing traffic has been disabled",
            r"We couldn't connect to 'https://huggingface\.co",
            r"LocalEntryNotFoundError",
            r"OfflineModeIsEnabled",
            r"httpx\.(?:ConnectError|ConnectTimeout|ReadTimeout|ProxyError)",
            r"[Cc]annot reach https://huggingface\.co",
            r"(?:Max retries exceeded|NameResolutionError|Temporary failure in name resolution|Connection "
            r"refused).{0,200}huggingface",
            r"huggingface\.co.{0,200}(?:Max retries exceeded|NameResolutionError|Failed to resolve|timed out)",
            r"requests\.exceptions\.(?:ConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError)",
            r"CERTIFICATE_VERIFY_FAILED",
        ),
        versions="any",
        explain=say("The model is not in the cache here, and the hub may not or cannot be reached."),
        fixes=do(
            "Download it once with the network on (`hf download REPO`), or give the path of a folder that has it.",
            Fix(text="Or allow the download.", env={"HF_HUB_OFFLINE": None, "TRANSFORMERS_OFFLINE": None}),
        ),
    ),
)
DOWNLOADS: tuple[Symptom, ...] = (
    Symptom(
        id="hub-download",
        patterns=(
            r" Server Error: [^\n]{0,60}for url",
            r"Service (?:Temporarily )?Unavailable[^\n]{0,20} for url",
            r"IncompleteRead\(",
            r"ChunkedEncodingError",
            r"RemoteProtocolError",
            r"peer closed connection without sending complete message body",
        ),
        versions="any",
        explain=say("The download broke off: the hub, or what lies between, failed."),
        fixes=do(
            "Start again in some minutes: what is there already is kept; `hf download REPO` shows how far it gets."
        ),
    ),
    Symptom(
        id="hub-download",
        patterns=(r"CAS service error", r"Data processing error: ", r"hf_transfer[^\n]{0,200}(?:failed|error)"),
        versions="any",
        explain=say("The download broke off: the hub's fast transfer (xet) failed."),
        fixes=do(
            "Start again: what is there already is kept; `hf download REPO` shows how far it gets.",
            Fix(text="Or download without the fast transfer.", env={"HF_HUB_DISABLE_XET": "1"}),
        ),
    ),
)
"""A disk that is full breaks a download off as well, and says so."""
