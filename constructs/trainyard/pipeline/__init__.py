"""Promotion from one environment to the next: a CodePipeline pipeline, its gates and its roles."""
