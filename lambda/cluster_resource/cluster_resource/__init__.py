"""The custom resource `Custom::ParallelCluster`: a Slurm cluster created through the ParallelCluster API.

`on_event` starts a state machine for each CloudFormation event; `handler` runs its steps.
docs/decisions/0001-custom-resource-state-machine.md describes the protocol between them and CloudFormation.
"""
