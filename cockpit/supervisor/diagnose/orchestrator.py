"""What starts and stops a server from outside says: Kubernetes' events, systemd, docker's daemon, a batch system."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import do, say

_PROBE_FIXES = do(
    "Give the pod a startupProbe on /health with failureThreshold x periodSeconds longer than the boot takes; the "
    "other probes wait for it.",
    "Or raise initialDelaySeconds of the probe that failed.",
)
_STORAGE = (
    "Mount a volume for the model's cache (HF_HOME): what a container writes elsewhere counts as ephemeral-storage."
)


def _evicted_fixes(seen: Evidence) -> list[Fix]:
    if seen.groups.get("what") == "memory":
        return [
            Fix(text="Give the pod a memory request that it needs, a node with more RAM, or a smaller checkpoint.")
        ]
    return [Fix(text=_STORAGE), Fix(text="Or raise the pod's request and limit of ephemeral-storage.")]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="pod-volume",
        patterns=(
            r"persistentvolumeclaim \"(?P<name>[^\"\n]+)\" not found",
            r"MountVolume\.\w+ failed for volume \"(?P<name>[^\"\n]+)\"",
            r"(?:secret|configmap) \"(?P<name>[^\"\n]+)\" not found",
            r"couldn't find key \S+ in (?:Secret|ConfigMap) (?P<name>\S+)",
        ),
        versions="any",
        explain=say(
            "The pod needs {name}, which the cluster does not have or cannot mount: the container never started.",
            "The pod needs a volume or secret that the cluster does not have: the container never started.",
        ),
        fixes=do("Create it in the pod's namespace, or correct its name in the pod's volumes and env."),
    ),
    Symptom(
        id="pod-unschedulable",
        patterns=(
            r"nodes? (?:is|are) available: [^\n]*Insufficient "
            r"(?P<what>nvidia\.com/[\w-]+|amd\.com/gpu|gpu\.intel\.com/\w+)",
        ),
        versions="any",
        explain=say(
            "No node of the cluster has as many free GPUs ({what}) as the pod asks for: it never started.",
            "No node of the cluster has as many free GPUs as the pod asks for: it never started.",
        ),
        fixes=do(
            "`kubectl describe nodes` shows what each node has and who holds it: lower the limit, or end the other "
            "pod.",
            "A node that shows none lacks the device plugin (GPU operator), or the pod a toleration of its taint.",
        ),
    ),
    Symptom(
        id="pod-unschedulable",
        patterns=(r"0/\d+ nodes (?:is|are) available: (?P<what>[^\n]{3,160}?)(?:\. preemption|\.\s|\.?$)",),
        versions="any",
        explain=say(
            "No node of the cluster may take the pod: {what}. It never started.",
            "No node of the cluster may take the pod: it never started.",
        ),
        fixes=do(
            "Change what the pod asks for (memory, cpu, nodeSelector), or add the toleration of the taint that is "
            "named."
        ),
    ),
    Symptom(
        id="pod-evicted",
        patterns=(
            r"low on resource: (?P<what>[\w-]+)",
            r"(?P<what>ephemeral)[ -](?:local )?storage usage exceeds",
            r"exceeded its local (?P<what>ephemeral) storage limit",
        ),
        versions="any",
        explain=say(
            "Kubernetes evicted the pod: its node ran low on {what}.",
            "Kubernetes evicted the pod: its node ran low on a resource.",
        ),
        fixes=_evicted_fixes,
    ),
    Symptom(
        id="probe-failed",
        patterns=(r"failed (?P<probe>liveness|startup) probe, will be (?:restarted|killed)",),
        versions="any",
        explain=say(
            "Kubernetes restarted the container because its {probe} probe failed: vLLM answers only when the model "
            "is loaded, which took longer than the probe waits.",
            "Kubernetes restarted the container because a probe failed before the model was loaded.",
        ),
        fixes=_PROBE_FIXES,
    ),
    Symptom(
        id="probe-failed",
        notice="hang",
        patterns=(r"[Ll]iveness probe failed",),
        versions="any",
        explain=say(
            "The liveness probe fails while the model loads; after a few more times Kubernetes restarts the "
            "container."
        ),
        fixes=_PROBE_FIXES,
    ),
    Symptom(
        id="probe-failed",
        patterns=(r"dependency failed to start: container (?P<name>\S+) is unhealthy",),
        versions="any",
        explain=say(
            "Compose gave up on {name}: its healthcheck failed before the model was loaded, or the server died.",
            "Compose gave up on a container: its healthcheck failed before the model was loaded, or the server died.",
        ),
        fixes=do(
            "Look at `docker logs {name}`: when it still loads give its healthcheck a start_period longer than the "
            "boot.",
            "The healthcheck must ask the port and address that the server listens on (/health).",
        ),
    ),
    Symptom(
        id="container-image",
        patterns=(
            r"exec format error",
            r"image's platform \([^)\n]+\) does not match the detected host platform [^\n]*\n?[^\n]*exec",
        ),
        versions="any",
        explain=say("The image, or a program in it, is made for another kind of processor than this machine's."),
        fixes=do(
            "Take the image of this machine's architecture (`uname -m`; --platform linux/arm64 or linux/amd64); "
            "vllm/vllm-openai has both since 0.10.",
        ),
    ),
    Symptom(
        id="container-name",
        patterns=(
            r"container name \"/?(?P<name>[^\"\n]+)\" is already in use",
            r"the container name \"?(?P<name>[^\"\n ]+)\"? is already in use",
        ),
        versions="any",
        explain=say(
            "There is a container called {name} already, running or stopped: this one never started.",
            "There is a container of that name already: this one never started.",
        ),
        fixes=do(
            "`docker ps -a` shows it; remove it when it is not needed (`docker rm {name}`), or give another --name."
        ),
    ),
    Symptom(
        id="container-mount",
        patterns=(
            r"bind source path does not exist: (?P<file>[^\n]+?)\.?$",
            r"Error: statfs (?P<file>\S+): no such file or directory",
            r"error mounting \"(?P<file>[^\"\n]+)\"",
            r"Mounts denied",
        ),
        versions="any",
        explain=say(
            "{file}, which the command mounts into the container, is not there or may not be mounted.",
            "What the command mounts into the container is not there or may not be mounted.",
        ),
        fixes=do("Correct the path on the host (-v HOST:CONTAINER), absolute and with the folder there."),
    ),
    Symptom(
        id="docker-daemon",
        patterns=(
            r"Cannot connect to the Docker daemon",
            r"permission denied while trying to connect to the Docker (?:daemon|API)",
        ),
        versions="any",
        explain=say("Docker's daemon does not run, or this user may not talk to it."),
        fixes=do("`systemctl start docker`; add the user to the group docker and log in anew, or use sudo."),
    ),
    Symptom(
        id="service-exec",
        patterns=(
            r"Failed at step EXEC spawning (?P<file>\S+): (?P<why>[^\n]+)",
            r"Unable to locate executable '(?P<file>[^'\n]+)': (?P<why>[^\n]+)",
            r"status=203/EXEC",
        ),
        versions="any",
        explain=say(
            "systemd could not start {file}: {why}. vLLM never ran.",
            "systemd could not start the program of ExecStart: vLLM never ran.",
        ),
        fixes=do(
            "Give ExecStart the whole path of vllm in its environment (`/opt/vllm/bin/vllm serve …`), executable, "
            "and not below a home that User= or ProtectHome= keeps away.",
        ),
    ),
    Symptom(
        id="service-user",
        patterns=(
            r"Failed at step (?P<step>USER|GROUP|CHDIR|NAMESPACE|EXEC_CREDENTIALS) spawning",
            r"status=(?:217/(?P<step>USER)|216/GROUP|200/CHDIR|226/NAMESPACE)",
            r"Changing to the requested working directory failed",
        ),
        versions="any",
        explain=say(
            "systemd could not set up the service ({step}): its user, group or folder is not there. vLLM never ran.",
            "systemd could not set up the service: its user, group or folder is not there. vLLM never ran.",
        ),
        fixes=do("Correct User=, Group=, WorkingDirectory= and ReadWritePaths= of the unit."),
    ),
    Symptom(
        id="service-timeout",
        patterns=(r"start(?:-pre)? operation timed out\. Terminating", r"Failed with result 'timeout'"),
        when=lambda seen: not seen.boot.ready,
        versions="any",
        explain=say(
            "systemd ended the server because it took longer to start than the unit allows (90 s by default)."
        ),
        fixes=do("Set Type=simple (vLLM does not notify systemd) and TimeoutStartSec=infinity in the unit."),
    ),
    Symptom(
        id="out-of-ram",
        patterns=(
            r"killed by the OOM killer",
            r"result 'oom-kill'",
            r"[Dd]etected \d+ oom[_-]kill event",
            r"Memory cgroup out of memory",
            r"running low on memory[^\n]{0,200}(?:[Kk]illed|kill)",
            r"(?:[Kk]illed|kill)[^\n]{0,120}running low on memory",
        ),
        versions="any",
        explain=say(
            "The kernel killed it because the machine, or the limit of its container, service or job, ran out of RAM."
        ),
        fixes=do(
            "Raise the memory limit (MemoryMax=, --memory, the pod's limit, --mem), free RAM, or use a smaller "
            "checkpoint.",
            "Loading several workers at once and pinned host memory (--cpu-offload-gb, --kv-offloading-size) take "
            "RAM too.",
        ),
    ),
    Symptom(
        id="job-time-limit",
        patterns=(r"CANCELLED AT \S+ DUE TO TIME LIMIT", r"job killed: walltime"),
        versions="any",
        explain=say("The batch system ended the job: its time was over."),
        fixes=do("Ask for more time (`sbatch --time`); the server itself was well."),
    ),
    Symptom(
        id="service-restarts",
        reports=True,
        patterns=(
            r"Start request repeated too quickly",
            r"Back-off restarting failed container",
            r"CrashLoopBackOff",
        ),
        versions="any",
        explain=say("It was started again and again, and died each time; why is in the log of one such start."),
        fixes=do("Give that log: `kubectl logs --previous POD`, `journalctl -u UNIT -n 500` or `docker logs NAME`."),
    ),
)
