"""scan-container-environment.sh in an image that has all, and in images that lack something."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cluster_assets.conftest import verbs_devices
from tests.scans.conftest import COMPUTE, Machine, bad, line, machine_with

SCRIPT = "scan-container-environment.sh"
# What the import of PyTorch gives; NCCL's version as a PyTorch says it that has NCCL built in.
TORCH = """
__version__ = "{version}"
class version:
    cuda = "{cuda}"
class cuda:
    class nccl:
        @staticmethod
        def version():
            return {nccl}
    @staticmethod
    def is_available():
        return {gpus} > 0
    @staticmethod
    def device_count():
        return {gpus}
"""


@pytest.fixture
def image(tmp_path: Path) -> Machine:
    """An image of today on a P5 node."""
    machine = machine_with(tmp_path, {name: COMPUTE[name] for name in ("fi_info",)})
    (machine.tools / "python3").symlink_to(sys.executable)
    machine.environment["PYTHONPATH"] = str(tmp_path / "packages")
    packages(machine)
    machine.file("/opt/amazon/ofi-nccl/lib/libnccl-net.so", "\0NET/OFI Initializing aws-ofi-nccl 1.22.0\0")
    verbs_devices(machine.root, "efa", [0])
    return machine


def packages(
    machine: Machine, version: str = "2.11.0", cuda: str = "13.0", nccl: tuple[int, ...] = (2, 28, 9), gpus: int = 8
) -> None:
    folder = Path(machine.environment["PYTHONPATH"])
    for name, text in {
        "torch/__init__.py": TORCH.format(version=version, cuda=cuda, nccl=nccl, gpus=gpus),
        "megatron/core/__init__.py": '__version__ = "0.14.0"\n',
        "deepspeed/__init__.py": '__version__ = "0.18.1"\n',
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_image_that_has_all(image: Machine) -> None:
    report = image.report(SCRIPT, "--gpus", "8")
    assert bad(report) == {}
    found = {
        name: line(report, name)["found"] for name in ("pytorch", "cuda", "nccl", "libfabric", "megatron", "deepspeed")
    }
    assert found == {
        "pytorch": "2.11.0", "cuda": "13.0", "nccl": "2.28.9",
        "libfabric": "2.3.1", "megatron": "0.14.0", "deepspeed": "0.18.1",
    }  # fmt: skip
    assert line(report, "gpus")["found"] == "8"


def test_image_of_the_first_days_is_old_and_enough(image: Machine) -> None:
    packages(image, "2.1.0", "12.2", (2, 18, 5))
    image.file("/opt/amazon/ofi-nccl/lib/libnccl-net.so", "\0aws-ofi-nccl 1.13.0-aws\0")
    assert bad(image.report(SCRIPT)) == dict.fromkeys(("pytorch", "cuda", "nccl", "aws-ofi-nccl"), "warning")


def test_image_that_is_too_old(image: Machine) -> None:
    packages(image, "1.13.1", "11.8", (2, 14, 3))
    assert bad(image.report(SCRIPT)) == dict.fromkeys(("pytorch", "cuda", "nccl"), "failure")


def test_fewer_gpus_than_asked_for(image: Machine) -> None:
    packages(image, gpus=7)
    report = image.report(SCRIPT, "--gpus", "8")
    assert bad(report) == {"gpus": "failure"}
    assert (line(report, "gpus")["found"], line(report, "gpus")["wanted"]) == ("7", "8 or more")


def test_build_machine_has_neither_gpus_nor_efa(image: Machine) -> None:
    packages(image, gpus=0)
    (image.root / "dev/infiniband/uverbs0").unlink()
    assert bad(image.report(SCRIPT, "--gpus", "0", "--no-efa")) == {}


def test_container_without_the_devices(image: Machine) -> None:
    (image.root / "dev/infiniband/uverbs0").unlink()
    verbs_devices(image.root, "mlx5_core", [1])
    image.tool(
        "fi_info", '[[ "$1" != --version ]] || { echo "libfabric: 2.3.1"; exit; }; echo "fi_getinfo: -61" >&2; exit 61'
    )
    report = image.report(SCRIPT)
    assert bad(report) == {"efa-devices": "failure", "efa-provider": "failure"}
    assert "--container-mounts=/dev/infiniband" in line(report, "efa-devices")["action"]


def test_pytorch_that_is_broken_hides_nothing_else(image: Machine) -> None:
    torch = Path(image.environment["PYTHONPATH"]) / "torch/__init__.py"
    torch.write_text("raise ImportError('libcudart.so.13: cannot open shared object file')\n")
    report = image.report(SCRIPT, "--gpus", "0")
    assert line(report, "pytorch")["found"] == "does not work: libcudart.so.13: cannot open shared object file"
    assert line(report, "deepspeed")["verdict"] == "ok"


def test_optional_framework_that_is_broken_is_a_failure(image: Machine) -> None:
    (Path(image.environment["PYTHONPATH"]) / "deepspeed/__init__.py").write_text("import no_such_thing\n")
    report = image.report(SCRIPT)
    assert bad(report) == {"deepspeed": "failure"}
    assert "no_such_thing" in line(report, "deepspeed")["found"]


def test_optional_framework_that_is_absent_is_well(image: Machine) -> None:
    for name in ("megatron/core", "deepspeed"):
        (Path(image.environment["PYTHONPATH"]) / name / "__init__.py").unlink()
        (Path(image.environment["PYTHONPATH"]) / name).rmdir()
    report = image.report(SCRIPT)
    assert bad(report) == {} and line(report, "megatron")["verdict"] == "skipped"


def test_image_without_python(image: Machine) -> None:
    image.without("python3")
    report = image.report(SCRIPT)
    assert bad(report).keys() == {"python", "pytorch", "cuda", "nccl", "gpus"}
    assert line(report, "python")["found"] == "no python3"


def test_minimums_are_read_by_python_where_there_is_no_jq(image: Machine) -> None:
    image.without("jq")
    assert bad(image.report(SCRIPT)) == {}


def test_settings_that_harm(image: Machine) -> None:
    image.environment |= {"NCCL_PROTO": "simple", "NCCL_SOCKET_IFNAME": "ens5", "FI_EFA_FORK_SAFE": "1"}
    report = image.report(SCRIPT)
    assert line(report, "nccl-settings")["verdict"] == "warning"
    assert line(report, "nccl-settings")["found"] == "NCCL_PROTO FI_EFA_FORK_SAFE NCCL_SOCKET_IFNAME"
    image.environment |= {"NCCL_PROTO": "", "NCCL_SOCKET_IFNAME": "^docker,lo,veth", "FI_EFA_FORK_SAFE": ""}
    assert bad(image.report(SCRIPT)) == {}


def test_wrong_arguments(image: Machine) -> None:
    result = image.run(SCRIPT, "--gpus", "all")
    assert result.returncode == 64 and "--gpus 'all': give a number from 0 to 999" in result.stderr
