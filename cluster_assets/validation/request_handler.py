"""request_handler.py REQUEST [WORD...]: carries out one validation request on the head node, as the cluster's user.

    facts                                    the installed programs and the imported images
    scan                                     the scan of the head node
    submit CHECK QUEUE FEATURE NODES MINUTES RUN [OPTION...]
                                             submit a job of low priority; FEATURE may be -, RUN names its folder
    look JOB FOLDER                          a job's state; after its end also its result and the end of its output
    cancel JOB                               end a job of the validation
    idle                                     scan the nodes that are idle and up, and check their GPUs (idle-nodes.sh)
    drain FOLDER                             the nodes that a job found bad; request.sh drains them
    state                                    Slurm's nodes, jobs and statistics, for a support bundle
    keep RUN PART PARTS DATA...              a part of a report, which is kept as report.json of the run's folder
    history                                  the verdicts and figures of the reports that are kept

The answer is one line of JSON, short enough for Systems Manager, which keeps 24,000 characters. The standard library
only, Python 3.9 or later. Exit codes: 0 answered; 1 refused, the reason on stderr; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NoReturn

import validation_results as results

HERE = Path(__file__).resolve().parent
PREFIX = "trainyard-validation-"
CHECKS = ("host-scan", "hello-gpu", "gpu-check", "gpu-burn", "pair-test", "nccl-tests", "storage-test", "s3-test")
OPTIONS = ("--image", "--measure", "--mounts-to-test", "--tool", "--fraction", "--segments", "--clients", "--mib")
NICE = 10000
DRAINED_SHARE = 4
"""Several bad nodes are drained if they are at most one in so many: more have a common cause."""
MOST_REASON = 200  # characters; Slurm keeps some hundred
NCCL_TESTS = Path("/opt/nccl-tests/build/all_reduce_perf")
TAIL_LINES, TAIL_CHARACTERS = 40, 4000
MOST_CHARACTERS = 20_000  # Systems Manager cuts output at 24,000 characters
IDLE_MINUTES, GRACE_MINUTES, PAUSE_S = 5, 5, 2
MOST_RUNS, MOST_REPORT = 20, 4_000_000
TIMEOUT_S, SCAN_TIMEOUT_S = 60, 240
ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"),
    *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"),
)


def refuse(why: str) -> NoReturn:
    """End with a reason."""
    sys.stderr.write(f"validation: {why}\n")
    sys.exit(1)


def slurm(*line: str, allowed: str = "") -> str:
    """The output of a Slurm command that must succeed, or fail with the `allowed` error."""
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    except FileNotFoundError:
        refuse(f"{line[0]} is not in PATH on {os.uname().nodename}: is this the head node?")
    except subprocess.TimeoutExpired:
        refuse(f"{line[0]} did not answer in {TIMEOUT_S} s: is slurmctld running?")
    if done.returncode and (not allowed or allowed not in done.stderr):
        refuse(f"{line[0]}: {(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout


def jobs_folder(settings: dict[str, Any]) -> Path:
    """The jobs at a path that compute nodes have too: in the shared folder, or else in each node's bundle."""
    shared = settings["folders"].get("scripts")
    if shared and (current := Path(shared) / "current").exists():
        return current.resolve() / "jobs"
    return Path("/opt/trainyard/current/jobs")


def base_folder(settings: dict[str, Any]) -> Path:
    """The parent of the folders of validations; with `people`, every user may make folders next to it."""
    folder = Path(settings["folders"].get("results") or Path.home()) / "validation"
    own = os.getuid()
    try:
        foreign = folder.lstat().st_uid not in (0, own) or folder.stat().st_uid != own
    except FileNotFoundError:
        foreign = folder.is_symlink()
    if foreign:
        refuse(f"{folder} belongs to another user: move it away, and run the bootstrap on the head node again")
    return folder


def checked_name(run: str) -> str:
    """A run's name, if valid."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,60}", run):
        refuse(f"'{run}' cannot name a run: letters, digits and hyphens")
    return run


def facts(settings: dict[str, Any], _words: Sequence[str]) -> dict[str, Any]:
    """What the checks can use on this cluster. Compute nodes have the head node's AMI, and so its programs."""
    folder = settings["folders"].get("images")
    images = sorted(path.stem for path in Path(folder).glob("[!.]*.sqsh")) if folder else []
    programs = [name for name in ("fio", "ior", "mdtest") if shutil.which(name)]
    programs += ["nccl-tests"] if NCCL_TESTS.exists() else []
    # The jobs' default Python. Without torch's import, which takes seconds.
    find = "import sys, importlib.util; sys.exit(not importlib.util.find_spec('torch'))"
    python = subprocess.run(("env", "python3", "-c", find), capture_output=True, check=False)
    programs += [] if python.returncode else ["torch"]
    return {"programs": programs, "images": images[:50]}


def scan(_settings: dict[str, Any], _words: Sequence[str]) -> dict[str, Any]:
    """The head node's scan."""
    script = HERE.parent / "scans" / "scan-host-environment.sh"
    line = ("bash", str(script), "head", "--json")
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=SCAN_TIMEOUT_S)
        return results.of_scan(json.loads(done.stdout))
    except subprocess.TimeoutExpired:
        refuse(f"the scan of the head node did not end in {SCAN_TIMEOUT_S} s")
    except ValueError:
        refuse(f"the scan of the head node gave no report: {(done.stderr or done.stdout).strip()[-1500:]}")


def submit(settings: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Hand a job to Slurm."""
    if len(words) < 6:
        refuse("submit takes CHECK QUEUE FEATURE NODES MINUTES RUN")
    check, queue, feature, nodes, minutes, run, *options = words
    if check not in CHECKS:
        refuse(f"'{check}' is not a check; allowed: {', '.join(CHECKS)}")
    if wrong := [word for word in options[::2] if word not in OPTIONS]:
        refuse(f"'{wrong[0]}' is not an allowed option; allowed: {', '.join(OPTIONS)}")
    where = [f"--partition={queue}", f"--nodes={nodes}", f"--time={minutes}"]
    where += [] if feature == "-" else [f"--constraint={feature}"]
    return send(settings, check, run, where, options)


def send(
    settings: dict[str, Any], check: str, run: str, where: Sequence[str], options: Sequence[str] = ()
) -> dict[str, Any]:
    """Hand a job to Slurm, on nodes that sbatch's options `where` describe."""
    job = jobs_folder(settings) / f"{check}.sbatch"
    if not job.is_file():
        refuse(f"there is no {job}: run the bootstrap on the head node again, entry.sh BUCKET updated REGION")
    folder = base_folder(settings) / checked_name(run) / check
    folder.mkdir(parents=True, exist_ok=True)
    line = [
        "sbatch", "--parsable", f"--nice={NICE}", f"--job-name={PREFIX}{check}", *where,
        f"--chdir={Path.home()}", f"--output={folder}/output.txt",
    ]  # fmt: skip
    said = slurm(*line, str(job), *options, "--results", str(folder / "results"))
    return {"job": said.strip().split(";")[0], "folder": str(folder)}


def show_job(job: str) -> dict[str, str]:
    """The fields of `scontrol show job`; empty for a forgotten job. Text, because Slurm 22.05 has no --json here."""
    if not re.fullmatch(r"\d{1,12}", job):
        refuse(f"'{job}' is not a job id")
    shown = slurm("scontrol", "--oneliner", "show", "job", job, allowed="Invalid job id")
    return dict(word.split("=", 1) for word in shown.split() if "=" in word)


def validation_folder(settings: dict[str, Any], folder: str) -> Path:
    """A folder of a validation."""
    found = Path(folder).resolve()
    if not found.is_relative_to(base_folder(settings).resolve()):
        refuse(f"'{folder}' is not a folder of a validation")
    return found


def look(settings: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """A job's state."""
    if len(words) != 2:
        refuse("look takes JOB FOLDER")
    job, folder = words[0], validation_folder(settings, words[1])
    found = show_job(job)
    # Slurm forgets a job some minutes after its end.
    state = found.get("JobState", "FORGOTTEN")
    answer: dict[str, Any] = {"state": state, "reason": found.get("Reason", ""), "nodes": found.get("NodeList", "")}
    answer["ended"] = state in ENDED or not found
    if state == "PENDING":
        partition = found.get("Partition", "")
        said = slurm("sinfo", "--list-reasons", "--noheader", f"--partition={partition}", "--format=%n %t: %E")
        answer["down"] = said.splitlines()[:5]
        answer["taken"] = count_taken(partition, found.get("Features", ""))
    if answer["ended"]:
        if ran := re.fullmatch(r"(?:(\d+)-)?(\d\d):(\d\d):(\d\d)", found.get("RunTime", "")):
            day, hours, minutes, seconds = (int(part or 0) for part in ran.groups())
            answer["seconds"] = ((day * 24 + hours) * 60 + minutes) * 60 + seconds
        answer["exit"] = found.get("ExitCode", "")
        output = folder / "output.txt"
        text = output.read_text(errors="replace") if output.is_file() else ""
        answer["tail"] = "\n".join(text.splitlines()[-TAIL_LINES:])[-TAIL_CHARACTERS:]
        answer["result"] = results.of(folder.name, folder / "results", text)
    return answer


def keep(settings: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Keep a run's report, which arrives in parts."""
    if len(words) < 4 or not all(re.fullmatch(r"[1-9]\d{0,2}", number) for number in words[1:3]):
        refuse("keep takes RUN PART PARTS DATA...")
    run, part, parts, *data = words
    folder = base_folder(settings) / checked_name(run)
    folder.mkdir(parents=True, exist_ok=True)
    partial, report = folder / ".report.partial", folder / "report.json"
    with partial.open("w" if part == "1" else "a") as stream:
        stream.write("".join(data))
    if part == parts:
        try:
            packed = base64.urlsafe_b64decode(partial.read_text())
            text = zlib.decompressobj().decompress(packed, MOST_REPORT).decode()
            json.loads(text)
        except (ValueError, zlib.error) as problem:
            refuse(f"the report of '{run}' is not one: {problem}")
        partial.write_text(text)
        partial.replace(report)
    return {"kept": str(report)}


def history(settings: dict[str, Any], _words: Sequence[str]) -> dict[str, Any]:
    """The reports that are kept, the newest first: when, the verdict and the figures, as far as they fit."""
    runs: list[dict[str, Any]] = []
    for path in sorted(base_folder(settings).glob("*/report.json"), reverse=True)[:MOST_RUNS]:
        try:
            report = json.loads(path.read_text())
            run = {key: report[key] for key in ("time", "passed", "headline", "figures")}
        except (OSError, ValueError, KeyError, TypeError):
            continue
        runs.append({**run, "run": path.parent.name, "headline": run["headline"][: results.MOST_CHARACTERS]})
        if len(json.dumps(runs, separators=(",", ":"))) > MOST_CHARACTERS - 100:
            runs.pop()
            break
    return {"runs": runs}


def count_taken(partition: str, feature: str) -> int:
    """The number of nodes with jobs in a partition, or in its compute resource if the job has a feature."""
    states = "--states=allocated,mixed,completing"
    nodes = slurm("sinfo", "--Node", "--noheader", f"--partition={partition}", states, "--format=%N,%b").split()
    return sum(feature in ("", "(null)", *node.split(",")[1:]) for node in nodes)


def cancel(_settings: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """End a job of the validation, and no other job."""
    job = words[0] if words else ""
    found = show_job(job)
    if found and not found.get("JobName", "").startswith(PREFIX):
        refuse(f"job {job} is {found.get('JobName')}, which is not a job of a validation: not cancelled")
    if found and found.get("JobState") not in ENDED:
        slurm("scancel", job)
    return {"cancelled": job}


def drain(settings: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """The reason for each node that a job found bad and that is in service. No other node can be named."""
    if len(words) != 1:
        refuse("drain takes FOLDER")
    folder = validation_folder(settings, words[0])
    try:
        output = (folder / "output.txt").read_text(errors="replace")
        bad, nodes = results.bad(folder.name, folder / "results", output)
    except (OSError, ValueError, KeyError) as problem:
        refuse(f"no verdict on nodes in {words[0]}: {problem}")
    if len(bad) > 1 and len(bad) * DRAINED_SHARE > nodes:
        refuse(f"{len(bad)} of {nodes} nodes are bad: more than a quarter is not drained, look at them")
    out = set(slurm("sinfo", "--Node", "--noheader", "--states=drain,down,fail", "--format=%N").split())
    reasons = {
        name: re.sub(r"[^A-Za-z0-9 .:/-]", " ", f"trainyard: {folder.name} {why}")[:MOST_REASON]
        for name, why in bad.items()
        if name not in out
    }
    return {"drain": reasons, "out": sorted(out & set(bad))[: results.MOST_FAULTS]}


def state(_settings: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """What Slurm shows, each command's output as far as it fits; of jobs neither names nor users."""
    if words:
        refuse(f"{words[0]!r}: state takes nothing")
    commands = {
        "sinfo": ("sinfo", "--format=%P %a %l %D %t %N"),
        "sinfo --list-reasons": ("sinfo", "--list-reasons", "--format=%40E %H %N"),
        "squeue": ("squeue", "--format=%i %P %T %M %D %R"),
        "sdiag": ("sdiag",),
    }
    return {name: slurm(*line)[: MOST_CHARACTERS // 5] for name, line in commands.items()}


def idle_nodes() -> dict[tuple[str, str, bool], list[str]]:
    """The nodes that are idle and up, by partition, compute resource and whether they have GPUs.

    Slurm appends a character to the state of a node without power, or that changes (idle~, idle#, idle%: sinfo(1)).
    """
    found: dict[tuple[str, str, bool], list[str]] = {}
    for line in slurm("sinfo", "--Node", "--noheader", "--format=%N %P %t %G").splitlines():
        name, partition, state, gres = line.split()[:4]
        if state == "idle":
            key = partition.rstrip("*"), re.sub(r"-\d+$", "", name), gres.startswith("gpu")
            found.setdefault(key, []).append(name)
    return found


def idle(settings: dict[str, Any], _words: Sequence[str]) -> dict[str, Any]:
    """Scan the nodes that are idle and up, then check their GPUs, and append the result to idle-nodes.jsonl.

    A job that does not start within a minute is removed (--deadline): its nodes are busy, or going down, and a job
    that waits for a powered-down node would make ParallelCluster start it.
    """
    run = f"idle-{datetime.now(timezone.utc):%Y%m%d-%H%M%S}"  # noqa: UP017 - Python 3.9
    ended: list[dict[str, Any]] = []
    for check in ("host-scan", "gpu-check"):
        groups = [one for one in idle_nodes().items() if check == "host-scan" or one[0][2]]
        sent = []
        for number, ((partition, _, _), names) in enumerate(groups, 1):
            where = [f"--partition={partition}", f"--nodes={len(names)}", f"--nodelist={','.join(names)}"]
            where += [f"--time={IDLE_MINUTES}", f"--deadline=now+{IDLE_MINUTES + 1}minutes"]
            sent.append((names, send(settings, check, f"{run}-{number}", where)))
        ended += [{"check": check, "nodes": names, **wait_for(settings, job)} for names, job in sent]
    answer = {"run": run, "jobs": ended}
    base_folder(settings).mkdir(parents=True, exist_ok=True)
    with (base_folder(settings) / "idle-nodes.jsonl").open("a") as stream:
        stream.write(json.dumps(answer) + "\n")
    return answer


def wait_for(settings: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """The end of a job of `idle`, and the nodes that it found bad."""
    until = time.monotonic() + 60 * (IDLE_MINUTES + GRACE_MINUTES)
    while not (state := look(settings, (job["job"], job["folder"])))["ended"]:
        if time.monotonic() > until:
            cancel(settings, (job["job"],))
            break
        time.sleep(PAUSE_S)
    folder = Path(job["folder"])
    output = folder / "output.txt"
    text = output.read_text(errors="replace") if output.is_file() else ""
    return {
        "state": state["state"],
        "folder": str(folder),
        "bad": results.bad(folder.name, folder / "results", text)[0],
    }


REQUESTS = {
    "facts": facts,
    "scan": scan,
    "submit": submit,
    "look": look,
    "cancel": cancel,
    "drain": drain,
    "idle": idle,
    "keep": keep,
    "history": history,
    "state": state,
}


def one_line(answer: dict[str, Any]) -> str:
    """The answer as JSON, without the end of the job's output if it is too long."""
    line = json.dumps(answer, separators=(",", ":"))
    too_long = len(line) > MOST_CHARACTERS and "tail" in answer
    return json.dumps({**answer, "tail": ""}, separators=(",", ":")) if too_long else line


def main(arguments: Sequence[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="request_handler.py", description="Answer one request of the validation.")
    parser.add_argument("--settings", type=Path, required=True, help="settings.json of the environment")
    parser.add_argument("request", choices=tuple(REQUESTS))
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    settings = json.loads(options.settings.read_text())
    print(one_line(REQUESTS[options.request](settings, options.words)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
