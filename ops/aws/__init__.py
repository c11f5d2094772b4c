"""An environment in an account, emulated or not: its stacks, the progress of a deployment, its status."""
