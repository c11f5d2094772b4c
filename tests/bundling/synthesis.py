"""Synthesizes a stack with one function: `python synthesis.py <source folder> <cloud assembly>`."""

import sys
from pathlib import Path

import aws_cdk as cdk

from trainyard.python_function import PythonFunction

app = cdk.App(outdir=sys.argv[2])
PythonFunction(
    cdk.Stack(app, "Stack"),
    "Greeter",
    entry=Path(sys.argv[1]),
    module="greeter/main.py",
    description="Greets.",
    timeout=cdk.Duration.seconds(5),
)
app.synth()
