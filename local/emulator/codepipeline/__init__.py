"""AWS CodePipeline, as far as a pipeline's definition, its state and its approvals go; local/pipeline executes it."""
