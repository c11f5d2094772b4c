"""The custom resource `Custom::ParallelCluster`: a Slurm cluster made through the ParallelCluster API.

`on_event` starts a state machine for each CloudFormation event; `work` does its steps. How the two, the state machine
and CloudFormation talk to each other is decided in docs/decisions/0001-custom-resource-state-machine.md.
"""
