"""What users run: the shared scripts folder, PATH, and Enroot's login to the registry."""

from __future__ import annotations

import os
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.cluster_assets.conftest import Node

Settings = dict[str, Any]


def test_installed_by_version_and_switched_by_a_link(node: Node, settings: Settings) -> None:
    first = node.publish(settings)
    assert node.run("head-configured").returncode == 0
    scripts = node.path("/shared/scripts")
    assert (scripts / "current").readlink() == Path("versions") / first
    scan = scripts / "current/scans/scan-host-environment.sh"
    assert os.access(scan, os.X_OK) and not (scripts / "current/steps").exists()

    second = node.publish(settings, changed={"scans/new.sh": "#!/usr/bin/env bash\n"})
    assert node.run("updated").returncode == 0
    assert (scripts / "current").readlink() == Path("versions") / second
    assert (scripts / "current/scans/new.sh").exists()
    # A job that was started from the first goes on with it.
    assert (scripts / "versions" / first / "scans/scan-host-environment.sh").exists()
    assert sorted(path.name for path in (scripts / "versions").iterdir()) == sorted([first, second])


def test_a_changed_version_is_kept_and_installed_again(node: Node, settings: Settings) -> None:
    version = node.publish(settings)
    assert node.run("head-configured").returncode == 0
    versions = node.path("/shared/scripts/versions")
    (versions / version / "scans/node-health.sh").write_text("exit 0\n")

    assert node.run("updated").returncode == 0

    assert "health::main" in (versions / version / "scans/node-health.sh").read_text()
    (kept,) = versions.glob(f"{version}.changed.*")
    assert (kept / "scans/node-health.sh").read_text() == "exit 0\n"
    assert "was changed: kept as" in node.log()


def test_links_in_the_way_are_refused(node: Node, settings: Settings) -> None:
    target = node.path("/etc/precious")
    target.mkdir(parents=True)
    node.path("/shared/scripts").mkdir()
    node.path("/shared/scripts/versions").symlink_to(target)
    result = node.bootstrap(settings, role="head-configured", code=70)
    assert "versions is a symbolic link" in result.stderr
    assert not list(target.iterdir())


def test_full_file_system_leaves_the_older_version_in_force(node: Node, settings: Settings) -> None:
    first = node.publish(settings)
    assert node.run("head-configured").returncode == 0
    full = '[[ "$*" != *versions* ]] || { echo "cp: No space left on device" >&2; exit 1; }'
    node.command("cp", f'{full}\nexec /bin/cp "$@"')
    result = node.bootstrap(settings, changed={"scans/new.sh": ""}, role="updated", code=70)
    assert "No space left on device" in result.stderr
    scripts = node.path("/shared/scripts")
    assert (scripts / "current").readlink() == Path("versions") / first
    assert [path.name for path in (scripts / "versions").iterdir()] == [first]


def test_environment_without_a_place_for_scripts(node: Node, settings: Settings) -> None:
    (node.fake / "mounts").write_text("/lustre\n/shared\n/scratch\n")
    del settings["folders"]["scripts"]
    node.bootstrap(settings, role="head-configured")
    assert not node.path("/shared/scripts").exists()
    assert "TRAINYARD_SCRIPTS='/opt/trainyard/current'" in node.path("/opt/trainyard/pcluster-env.sh").read_text()


def login(node: Node, home: Path, script: str = "") -> str:
    """What a user's login shell does with our files in profile.d, then `script`."""
    text = "".join(path.read_text() for path in sorted(node.path("/etc/profile.d").glob("trainyard*.sh")))
    text = text.replace("/opt/trainyard/", f"{node.path('/opt/trainyard')}/").replace("$(id -u)", "1000")
    done = subprocess.run(
        ["sh", "-euc", f"{text}\n{script}"],
        env={"HOME": str(home), "PATH": f"{node.fake / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_helpers_are_on_every_users_path_and_shadow_nothing(node: Node, settings: Settings, tmp_path: Path) -> None:
    node.bootstrap(settings, role="login-configured")
    profile = node.path("/etc/profile.d/trainyard.sh").read_text()
    path = login(node, tmp_path, profile.replace("/opt/trainyard/", f"{node.path('/opt/trainyard')}/") + "\necho $PATH")
    current = "/shared/scripts/current"
    assert path.endswith(f":{current}/images:{current}/scans:{current}/jobs")
    assert path.count(f"{current}/scans") == 1, "a second shell inside the first adds nothing"


def test_many_first_logins_at_once_store_a_command_and_nothing_secret(
    node: Node, settings: Settings, tmp_path: Path
) -> None:
    node.bootstrap(settings, role="login-configured")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: login(node, tmp_path), range(8)))
    file = tmp_path / ".config/enroot/.credentials"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    line = "machine registry.example login AWS password $(aws ecr get-login-password --region us-east-1)"
    assert set(file.read_text().splitlines()) == {line}
    assert not [call for call in node.calls("aws") if "ecr" in call]
    assert "AWS password" not in node.log()


def test_enroot_gets_a_fresh_password_at_each_import(node: Node, settings: Settings, tmp_path: Path) -> None:
    """Enroot passes the file to curl through this: `echo` of what follows the word password, in a shell."""
    node.bootstrap(settings, role="login-configured")
    home = tmp_path / "home"
    home.mkdir()
    login(node, home)
    (node.fake / "bin/aws").write_text(
        '#!/bin/sh\necho call >>"$FAKE/calls"; echo "password-$(wc -l <"$FAKE/calls" | tr -d " ")"\n'
    )
    evaluate = r"""awk '{
        if (NF >= 6 && $6 ~ "^\\$") {
            for (i = 1; i < 6; i++) printf "%s ", $i
            for (i = 1; i < 6; i++) sub("^[" FS "]*[^" FS "]+[" FS "]+", "", $0)
            system("echo " $0)
        } else print
    }' "$1" """
    for number in (1, 2):
        done = subprocess.run(
            ["bash", "-c", evaluate, "evaluate", home / ".config/enroot/.credentials"],
            env=os.environ | node.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == f"machine registry.example login AWS password password-{number}\n"


def test_users_own_credentials_stay(node: Node, settings: Settings, tmp_path: Path) -> None:
    node.bootstrap(settings, role="login-configured")
    file = tmp_path / ".config/enroot/.credentials"
    file.parent.mkdir(parents=True)
    own = "machine nvcr.io login $oauthtoken password own\nmachine registry.example login me password mine\n"
    file.write_text(own)
    login(node, tmp_path)
    assert file.read_text() == own and stat.S_IMODE(file.stat().st_mode) == 0o600
