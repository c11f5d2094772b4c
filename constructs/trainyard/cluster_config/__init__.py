"""The ParallelCluster configuration of an environment.

`render` is pure: an environment and the references to its resources give the configuration, as plain values and strings
(which may be CDK tokens). `types_of` lists which of the values are not strings, for the custom resource.
"""

from trainyard.cluster_config.references import DatabaseReferences, NodeReferences, References
from trainyard.cluster_config.rendering import render
from trainyard.cluster_config.types import types_of

__all__ = ["DatabaseReferences", "NodeReferences", "References", "render", "types_of"]
