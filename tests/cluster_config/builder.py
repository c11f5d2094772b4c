"""Small environments for one feature at a time."""

from __future__ import annotations

import copy
from typing import Any

from settings import Environment
from tests.cluster_config.references import references
from trainyard.cluster_config import render

_SMALL: dict[str, Any] = {
    "name": "small",
    "account": "123456789012",
    "region": "us-east-1",
    "network": {"zone": "use1-az4"},
    "cluster": {"queues": [{"name": "cpu", "compute": [{"name": "c7i", "instance_types": ["c7i.xlarge"], "max": 2}]}]},
}
GPU: dict[str, Any] = {"name": "p5", "instance_types": ["p5.48xlarge"], "max": 2, "efa": True}


def environment(*, cluster: dict[str, Any] | None = None, **top: Any) -> Environment:  # noqa: ANN401 - any part
    """A small environment with keys of `cluster` and of the top replaced."""
    content = copy.deepcopy(_SMALL)
    content["cluster"].update(cluster or {})
    return Environment.model_validate({**content, **top})


def rendered(*, cluster: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:  # noqa: ANN401 - any part
    """The configuration of such an environment, as JSON."""
    built = environment(cluster=cluster, **top)
    return render(built, references(built))


def rendered_queue(**queue: Any) -> dict[str, Any]:  # noqa: ANN401 - any key of a queue
    """The one queue of a configuration, with P5 nodes unless `queue` says otherwise."""
    configuration = rendered(cluster={"queues": [{"name": "gpu", "compute": [GPU], **queue}]})
    only: dict[str, Any] = configuration["Scheduling"]["SlurmQueues"][0]
    return only
