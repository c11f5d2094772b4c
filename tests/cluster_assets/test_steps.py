"""The steps: what a node looks like afterwards."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster_assets.conftest import FAKES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.cluster_assets.conftest import Node

Settings = dict[str, Any]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user: needs root")


def mode(path: Path) -> str:
    return f"{path.stat().st_mode & 0o7777:o}"


def test_waits_for_a_mount_that_comes_late(node: Node, settings: Settings) -> None:
    (node.fake / "mounts").write_text("/shared\n")
    node.environment["TRAINYARD_MOUNT_SECONDS"] = "600"
    node.publish(settings)
    log = node.path("/var/log/trainyard/bootstrap.log")

    process = node.start("compute-configured")
    while process.poll() is None and not (log.exists() and "waiting for " in log.read_text()):
        time.sleep(0.05)
    (node.fake / "mounts").write_text("/shared\n/lustre\n/scratch\n")
    errors = process.communicate(timeout=600)[1]

    assert (process.returncode, errors) == (0, "")
    assert "waiting for /lustre" in node.log() and "waiting for /lustre /shared" not in node.log()


def test_automount_that_did_not_mount_is_not_a_file_system(node: Node, settings: Settings) -> None:
    """Its path is a mount point all the same, whose type is autofs."""
    node.command("stat", '[[ "$*" == *%T*/lustre ]] && echo autofs || exec /usr/bin/stat "$@"')
    node.environment["TRAINYARD_MOUNT_SECONDS"] = "0"
    result = node.bootstrap(settings, role="compute-configured", code=70)
    assert "not mounted after 0 s: /lustre." in result.stderr


def test_environment_without_file_systems_waits_for_none(node: Node, settings: Settings) -> None:
    (node.fake / "mounts").write_text("")
    (node.fake / "disks").write_text("Amazon Elastic Block Store\n")
    nothing = {"mounts": [], "bases": {"lustre": None, "shared": None}, "folders": {}, "models": []}
    node.bootstrap(settings | nothing, role="head-configured")


def test_folders_of_the_environment_and_of_its_models(node: Node, settings: Settings) -> None:
    node.bootstrap(settings, role="head-configured")
    for folder in (
        *settings["folders"].values(),
        *settings["models"][0]["folders"].values(),
        *(f"{settings['folders']['results']}/{name}" for name in ("bad-nodes", "checks", "validation")),
        "/lustre/model1",
        "/shared/containers",
    ):
        assert node.path(folder).is_dir(), folder
        assert mode(node.path(folder)) == "775", folder
    assert mode(node.path("/lustre")) != "775"


def test_folder_that_a_project_narrowed_stays_narrow(node: Node, settings: Settings) -> None:
    node.bootstrap(settings, role="head-configured")
    node.path("/lustre/model1").chmod(0o700)
    assert node.run("updated").returncode == 0
    assert mode(node.path("/lustre/model1")) == "700"


@as_root
def test_folders_belong_to_the_clusters_user(node: Node, settings: Settings) -> None:
    """Also one that FSx made as root for an association; but not one that another user has already."""
    settings["cluster"]["user"] = "nobody"
    node.path("/lustre/data").mkdir(mode=0o755)
    node.path("/lustre/logs").mkdir(mode=0o750)
    os.chown(node.path("/lustre/logs"), 4242, 4242)
    node.bootstrap(settings, role="head-configured")

    assert node.path("/lustre/data").owner() == "nobody" and mode(node.path("/lustre/data")) == "775"
    assert node.path("/lustre/model1/checkpoints").owner() == "nobody"
    assert node.path("/lustre/logs").stat().st_uid == 4242 and mode(node.path("/lustre/logs")) == "750"


def test_folder_step_follows_no_link(node: Node, settings: Settings) -> None:
    target = node.path("/etc/important")
    target.mkdir(parents=True)
    target.chmod(0o700)
    node.path("/lustre/checkpoints").symlink_to(target)
    result = node.bootstrap(settings, role="head-configured", code=70)

    assert "/lustre/checkpoints is a symbolic link" in result.stderr
    assert mode(target) == "700"


def test_a_model_s_folder_that_its_team_replaced_fails_no_head_node(node: Node, settings: Settings) -> None:
    folder = node.path(settings["models"][0]["folders"]["logs"])
    folder.parent.mkdir(parents=True)
    folder.symlink_to("/etc")
    node.bootstrap(settings, role="head-configured")
    assert f"{folder} is a symbolic link" in node.log() and "cannot be used" in node.log()
    assert node.path(settings["folders"]["logs"]).is_dir()


def test_folder_outside_the_mounts_is_refused(node: Node, settings: Settings) -> None:
    settings["folders"]["results"] = "/lustrex/results"
    result = node.bootstrap(settings, role="head-configured", code=70)

    assert "/lustrex/results is on none of the environment's file systems" in result.stderr


def test_folder_steps_at_once_on_one_share(node: Node, settings: Settings) -> None:
    node.bootstrap(settings, role="compute-start")  # unpacks the bundle
    step = node.path("/opt/trainyard/current/steps/folders.sh")
    processes = [
        subprocess.Popen(["bash", step], env=os.environ | node.environment, stderr=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    outputs = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, outputs
    made = re.findall(r"created (\S+)", "".join(outputs))
    # Twelve folders of the settings and of the model, three in the one for results, and one for tests on each of two
    # file systems.
    assert len(made) == len(set(made)) == 17


def test_timer_of_the_schedule(node: Node, settings: Settings) -> None:
    """Written once, changed with the environment file, and gone with the key."""
    timer = node.path("/etc/systemd/system/trainyard-idle-nodes.timer")
    node.bootstrap(settings, role="head-configured")
    assert not timer.exists() and "idle-nodes" not in str(node.calls("systemctl"))
    scheduled = settings | {"validation": {"calendar": "Sat *-*-* 02:30:00 UTC", "on_failure": "report"}}
    node.bootstrap(scheduled, role="updated")
    assert "OnCalendar=Sat *-*-* 02:30:00 UTC\n" in timer.read_text()
    assert "validation/idle-nodes.sh" in timer.with_suffix(".service").read_text()
    wanted = ["daemon-reload", "enable trainyard-idle-nodes.timer", "restart trainyard-idle-nodes.timer"]
    assert node.calls("systemctl")[-3:] == wanted
    node.run("updated")
    assert node.calls("systemctl").count(wanted[1]) == 1
    node.bootstrap(settings, role="updated")
    assert not timer.exists() and not timer.with_suffix(".service").exists()
    assert node.calls("systemctl")[-2:] == ["disable --now trainyard-idle-nodes.timer", "daemon-reload"]


def test_timer_of_the_database_password(node: Node, settings: Settings) -> None:
    """Installed while ParallelCluster's script exists (with an accounting database), then removed."""
    script = node.path("/opt/parallelcluster/scripts/slurm/update_slurm_database_password.sh")
    timer = node.path("/etc/systemd/system/trainyard-database-password.timer")
    node.bootstrap(settings, role="head-configured")
    assert not timer.exists() and "database-password" not in str(node.calls("systemctl"))
    script.parent.mkdir(parents=True)
    script.touch()
    for _ in range(2):  # the second run changes nothing
        node.run("updated")
    assert "OnUnitInactiveSec=5min\n" in timer.read_text()
    service = timer.with_suffix(".service").read_text()
    assert "ExecStart=/bin/bash /opt/trainyard/current/steps/database-password.sh update\n" in service
    assert node.calls("systemctl").count("enable trainyard-database-password.timer") == 1
    script.unlink()
    node.run("updated")
    assert not timer.exists() and not timer.with_suffix(".service").exists()
    assert "disable --now trainyard-database-password.timer" in node.calls("systemctl")


def people_node(node: Node, kind: str, sshd: str) -> None:
    node.path("/etc/chef/dna.json").write_text(json.dumps({"cluster": {"node_type": kind}}))
    node.path("/etc/ssh").mkdir(exist_ok=True)
    node.path("/etc/ssh/sshd_config").write_text(sshd)
    node.path("/opt/slurm/etc/scripts/prolog.d").mkdir(parents=True, exist_ok=True)
    node.key("cluster/people.json").parent.mkdir(parents=True, exist_ok=True)
    node.key("cluster/people.json").write_text('{"schema": 1, "users": [], "teams": [], "qos": [], "reservations": []}')


@pytest.mark.parametrize("included", [True, False], ids=["drop-ins", "ParallelCluster's sshd_config"])
def test_people_come_with_a_timer_a_prolog_and_a_folder_of_keys(included: bool, node: Node, settings: Settings) -> None:
    """The programs refuse a root that is not the machine's, which must not fail the bootstrap."""
    line = "AuthorizedKeysFile .ssh/authorized_keys .ssh/authorized_keys2 /etc/ssh/trainyard_keys/%u\n"
    before = ("Include /etc/ssh/sshd_config.d/*.conf\n" if included else "") + "PasswordAuthentication no\n"
    people_node(node, "HeadNode", before)
    timer = node.path("/etc/systemd/system/trainyard-people.timer")
    node.bootstrap(settings, role="head-configured")
    assert not timer.exists()
    node.bootstrap(settings | {"people": True}, role="updated")
    assert "users and shares are not as the people file says" not in node.log()
    assert "only those of the machine that it runs on" in node.log()
    assert "OnCalendar=*:0/5\n" in timer.read_text()
    drop_in, sshd = node.path("/etc/ssh/sshd_config.d/10-trainyard.conf"), node.path("/etc/ssh/sshd_config")
    assert (drop_in.read_text() if included else sshd.read_text()) == (line if included else line + before)
    assert sshd.read_text().endswith(before)
    prolog = node.path("/opt/slurm/etc/scripts/prolog.d/15_trainyard_people")
    assert prolog.stat().st_mode & 0o111
    for lock in ("/var/lib/trainyard/.people.lock", "/opt/trainyard/.lock"):  # who can read it could hold it
        assert mode(node.path(lock)) == "600"
    snapshot = node.snapshot()
    node.run("updated")
    assert {name for name, value in node.snapshot().items() if snapshot.get(name) != value} <= {
        "var/lib/trainyard/.people.lock"
    }
    node.command("systemctl", '[[ "$1" != disable ]]')
    node.bootstrap(settings, role="updated")
    assert timer.exists() and prolog.exists() and "cannot stop trainyard-people.timer" in node.log()
    node.command("systemctl", '[[ "$1" != daemon-reload ]]')
    node.bootstrap(settings, role="updated")
    assert not timer.exists() and not prolog.exists()


def test_a_bucket_that_cannot_be_read_does_not_fail_the_bootstrap(node: Node, settings: Settings) -> None:
    people_node(node, "HeadNode", "")
    node.command("aws", f'[[ "$*" != *people.json* ]] || {{ echo "AccessDenied" >&2; exit 1; }}\n{FAKES["aws"]}')
    node.bootstrap(settings | {"people": True}, role="head-configured")
    assert "cannot fetch s3://" in node.log()
    assert "users and shares are not as the people file says" in node.log()


def test_environment_for_every_user(node: Node, settings: Settings, tmp_path: Path) -> None:
    settings["environment"] = "it's $HOME"
    node.bootstrap(settings, role="compute-configured")
    variables = subprocess.run(
        ["bash", "-uc", f". '{node.path('/opt/trainyard/pcluster-env.sh')}'; env"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert {
        "AWS_REGION=us-east-1",
        "ECR_REPO_NAME=pytorch-training-custom",
        "ECR_REPO_URI=registry.example/pytorch-training-custom",
        "S3_BUCKET_NAME=local-data",
        "LUSTRE_BASE=/lustre",
        "CONTAINER_IMAGES_DIR=/shared/containers/images",
        "TRAINYARD_ENVIRONMENT=it's $HOME",
    } <= set(variables)

    # The login hook makes ~/pcluster-env.sh, and leaves one that is there.
    hook = node.path("/etc/profile.d/trainyard.sh").read_text()
    hook = hook.replace("/opt/trainyard", str(node.path("/opt/trainyard"))).replace("$(id -u)", "1000")
    home = tmp_path / "home"
    home.mkdir()
    for _ in range(2):
        subprocess.run(["sh", "-euc", hook], env={"HOME": str(home), "PATH": os.environ["PATH"]}, check=True)
    assert (home / "pcluster-env.sh").read_text() == f". {node.path('/opt/trainyard/pcluster-env.sh')}\n"


def test_enroot_keeps_its_files_on_local_nvme(node: Node, settings: Settings) -> None:
    node.bootstrap(settings, role="compute-configured")
    for folder in ("cache", "data", "tmp"):
        assert mode(node.path(f"/scratch/enroot/{folder}")) == "1777"
    assert (mode(node.path("/run/enroot")), mode(node.path("/run/pyxis"))) == ("1777", "755")
    conf = node.path("/etc/enroot/enroot.conf").read_text()
    assert "ENROOT_CACHE_PATH /scratch/enroot/cache/user-$(id -u)\n" in conf
    assert "ENROOT_RUNTIME_PATH /run/enroot/user-$(id -u)\n" in conf
    rules = node.path("/etc/tmpfiles.d/trainyard.conf")
    assert "d /run/enroot 1777 root root -\n" in rules.read_text()
    assert "e /scratch/enroot/cache/user-* - - - 14d\n" in rules.read_text()


def test_layers_that_nobody_uses_are_removed(node: Node, settings: Settings) -> None:
    node.bootstrap(settings, role="compute-configured")
    user, days = node.path("/scratch/enroot/cache/user-1000"), 86400
    user.mkdir()
    for name, age in (("old", 15 * days), ("new", 13 * days)):
        (user / name).touch()
        os.utime(user / name, (time.time() - age,) * 2)
    os.utime(user, (1, 1))
    rules = node.path("/etc/tmpfiles.d/trainyard.conf")
    # Without the time of the last change of a file's status, which nobody can set.
    rules.write_text(rules.read_text().replace(" 14d", " aAmM:14d"))
    subprocess.run(["systemd-tmpfiles", f"--root={node.root}", "--clean", rules], check=True)
    assert [file.name for file in user.iterdir()] == ["new"]
    (user / "new").unlink()
    os.utime(user, (1, 1))
    subprocess.run(["systemd-tmpfiles", f"--root={node.root}", "--clean", rules], check=True)
    assert user.exists()


@pytest.mark.parametrize("folder", ["/scratch/enroot", "/scratch/enroot/cache"])
def test_a_system_folder_that_a_user_made_first_is_refused(folder: str, node: Node, settings: Settings) -> None:
    """Scratch is open to all, and root would open what the link names."""
    target = node.path("/etc/important")
    target.mkdir(parents=True)
    node.path(folder).parent.mkdir(parents=True, exist_ok=True)
    node.path(folder).symlink_to(target)
    before = mode(target)
    result = node.bootstrap(settings, role="compute-configured", code=70)
    assert f"{folder} is a link or belongs to" in result.stderr
    assert (mode(target), list(target.iterdir())) == (before, [])


@pytest.mark.parametrize("why", ["the queue has no scratch", "the node has no local NVMe", "no queue"])
def test_enroot_keeps_its_files_on_the_root_volume(node: Node, settings: Settings, why: str) -> None:
    if why == "the queue has no scratch":
        node.path("/etc/chef/dna.json").write_text('{"cluster": {"scheduler_queue_name": "cpu"}}')
    elif why == "no queue":
        node.path("/etc/chef/dna.json").write_text('{"cluster": {}}')
    else:
        (node.fake / "disks").write_text("Amazon Elastic Block Store\n")
    node.bootstrap(settings, role="compute-configured")
    assert mode(node.path("/var/enroot/data")) == "1777"
    assert not node.path("/scratch/enroot").exists()


def test_node_whose_nvme_is_not_mounted_takes_no_work(node: Node, settings: Settings) -> None:
    (node.fake / "mounts").write_text("/lustre\n/shared\n")
    result = node.bootstrap(settings, role="compute-configured", code=70)

    assert "/scratch is not mounted" in result.stderr


def test_pyxis_is_switched_on_by_the_head_node_alone(node: Node, settings: Settings) -> None:
    etc = node.path("/opt/slurm/etc")
    node.publish(settings)
    for role in ("compute-start", "compute-configured", "login-configured"):
        assert node.run(role).returncode == 0
    assert not (etc / "plugstack.conf").exists() and not (etc / "plugstack.conf.d").exists()

    assert node.run("head-configured").returncode == 0

    assert "include /opt/slurm/etc/plugstack.conf.d/*" in (etc / "plugstack.conf").read_text()
    [pyxis] = (etc / "plugstack.conf.d").iterdir()
    assert pyxis.name == "pyxis.conf"
    assert pyxis.read_text().splitlines()[-1].endswith(".so runtime_path=/run/pyxis container_scope=job")
    assert node.calls("systemctl")[-1] == "try-restart slurmctld"


@pytest.mark.parametrize("role", ["head-configured", "compute-configured"])
@pytest.mark.parametrize(
    "gone", ["/opt/parallelcluster/examples/pyxis/pyxis.conf", "/usr/local/lib/slurm/spank_pyxis.so"]
)
def test_image_without_pyxis_is_refused(node: Node, settings: Settings, role: str, gone: str) -> None:
    node.path(gone).unlink()
    result = node.bootstrap(settings, role=role, code=70)

    assert "use an official ParallelCluster AMI" in result.stderr
    assert not node.path("/opt/slurm/etc/plugstack.conf").exists()


def test_limits(node: Node, settings: Settings) -> None:
    node.bootstrap(settings, role="compute-start")
    assert "* hard memlock unlimited\n" in node.path("/etc/security/limits.d/90-trainyard.conf").read_text()
    unit = node.path("/etc/systemd/system/slurmd.service.d/90-trainyard.conf").read_text()
    assert "LimitMEMLOCK=infinity\n" in unit
    assert node.calls("systemctl") == ["daemon-reload"]


def test_file_that_cannot_be_written_fails_the_step(node: Node, settings: Settings) -> None:
    node.path("/etc/security").write_text("")
    result = node.bootstrap(settings, role="compute-start", code=70)
    assert "step limits of role compute-start" in result.stderr


def with_efa(node: Node, settings: Settings, interfaces: int) -> Settings:
    """An EFA-enabled file system, and a node with that many EFA interfaces and stand-ins for LNet's commands."""
    settings["mounts"][0]["efa"] = True
    driver = node.path("/sys/bus/drivers/efa")
    driver.mkdir(parents=True)
    for index in range(interfaces):
        device = node.path(f"/sys/class/infiniband/rdmap{index:02}s0/device")
        device.mkdir(parents=True)
        (device / "driver").symlink_to(driver)
    node.command("ip", "echo 'default via 10.0.0.1 dev ens5 proto dhcp src 10.0.0.9 metric 512'")
    node.command("modinfo", '[[ ! -e "${FAKE}/no-kefalnd" ]]')
    node.command("modprobe", 'echo "modprobe $*" >>"${FAKE}/lnet-calls"')
    node.command(
        "lnetctl",
        """
        [[ "$*" != "net show"* ]] || { cat "${FAKE}/nets" 2>/dev/null; exit; }
        echo "$*" >>"${FAKE}/lnet-calls"
        [[ "$*" != *"--net efa --if"* ]] || [[ -e "${FAKE}/efa-fails" ]] || echo "nid: 10.0.0.9@efa" >>"${FAKE}/nets"
        """,
    )
    return settings


@pytest.mark.parametrize(
    ("interfaces", "used"),
    [(32, range(0, 32, 4)), (16, range(0, 16, 2)), (8, range(8)), (4, (0, 2)), (2, (0, 1)), (1, (0,))],
)
def test_lustre_over_efa(node: Node, settings: Settings, interfaces: int, used: Iterable[int]) -> None:
    node.bootstrap(with_efa(node, settings, interfaces), role="compute-start")
    calls = node.calls("lnet")
    assert calls == [
        "modprobe lnet",
        "modprobe kefalnd ipif_name=ens5",
        "modprobe ksocklnd",
        "lnet configure",
        "net del --net tcp",
        "net add --net tcp --if ens5",
        *(f"net add --net efa --if rdmap{index:02}s0 --peer-credits 32" for index in used),
        "set discovery 1",
        "udsp add --src efa --priority 0",
        "modprobe lustre",
    ]
    assert "enable trainyard-lustre-efa.service" in node.calls("systemctl")
    before = node.snapshot()
    assert node.run("compute-start").returncode == 0
    assert (node.calls("lnet"), node.snapshot()) == (calls, before)


def test_node_without_efa_uses_tcp(node: Node, settings: Settings) -> None:
    node.bootstrap(with_efa(node, settings, 0), role="compute-start")
    assert "Lustre uses TCP" in node.log()
    assert node.calls("lnet") == []


@pytest.mark.parametrize(("fault", "said"), [("no-kefalnd", "kernel 6.8"), ("efa-fails", "0 of 8 EFA interfaces")])
def test_node_whose_client_cannot_use_efa_fails(node: Node, settings: Settings, fault: str, said: str) -> None:
    (node.fake / fault).touch()
    result = node.bootstrap(with_efa(node, settings, 32), role="compute-start", code=70)
    assert "step lustre-efa of role compute-start" in result.stderr
    assert said in result.stderr
