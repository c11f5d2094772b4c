"""The models that train on the cluster."""

from __future__ import annotations

from tests.settings.examples.common import NO_MODELS, Bad, Good, M

GOOD: list[Good] = [
    NO_MODELS,
]

BAD: list[Bad] = [
    ({f"{M}.1.name": "one"}, "models[1].name", "models[0]"),
    ({f"{M}.0.queue": "gpus"}, "models[0].queue", "gpu, cpu"),
    ({f"{M}.0.nodes": 4}, "models[1].nodes", "1 too many"),
    ({f"{M}.0.nodes": 2}, "models[1].nodes", "1 would be idle"),
    ({f"{M}.0.folders.outputs": "/scratch/o"}, "models[0].folders.outputs", "below one of /fsx"),
    ({f"{M}.0.folders.outputs": "/fsx"}, "models[0].folders.outputs", "below one of"),
    ({f"{M}.0.folders.data": "/fsx/../etc"}, "models[0].folders.data", "absolute path"),
    ({f"{M}.1.folders.checkpoints": "/fsx/a/c"}, "models[1].folders.checkpoints", "models[0].folders.checkpoints"),
    ({f"{M}.1.folders.outputs": "/fsx/a/c/o"}, "models[1].folders.outputs", "overlaps"),
    ({f"{M}.0.folders.outputs": "/fsx/a/c"}, "models[0].folders.outputs", "overlaps"),
]
